"""Jobs over time: modes of each job, the greedy timetable, from intervals to a plan."""
