"""The cheapest fleet for a load that changes by the hour: the best fleet of each hour, then the way through them."""
