"""The policies that fly."""
