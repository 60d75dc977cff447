"""From believed costs to an action."""
