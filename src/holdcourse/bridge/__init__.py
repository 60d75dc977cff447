"""A controller wired into a plant: reads its conditions, asks the service, writes the set-point, hands back on loss."""
