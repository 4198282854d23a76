"""Timetables against published instances with known optima, and on drawn portfolios of jobs."""
