"""Why no plan exists, and the smallest relaxations that give one."""
