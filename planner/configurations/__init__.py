"""How a job can be trained: recipes on machines, memory and speed, no prices."""
