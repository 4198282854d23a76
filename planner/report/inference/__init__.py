"""Generation as text: an estimate of one replica, and the sections of a plan."""
