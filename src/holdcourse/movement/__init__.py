"""Actions, and what moving between them costs."""
