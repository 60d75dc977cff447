"""The side of the service that knows no HTTP: its controllers, their records, and who waits for what."""
