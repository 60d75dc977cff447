"""From measurements to what every action is believed to cost."""
