"""From wind data to the answer whether altitude control would have paid off."""
