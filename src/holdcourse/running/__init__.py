"""A policy beside a real machine: asked, limited, told, recorded, proved."""
