"""Services, fleets of replicas by the hour: the door of everything that is planned, told and written of them.

Others import this package alone, and take names from it: `services.what_if_of_services`. A module is
loaded when a name of it is used for the first time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from planner.first_use import on_first_use

if TYPE_CHECKING:
    from planner.services.audited_fleet import audit_services as audit_services
    from planner.services.fleet_answer import fleet_risks as fleet_risks
    from planner.services.fleet_answer import render_fleet_answer as render_fleet_answer
    from planner.services.fleet_refusals import ServiceTrial as ServiceTrial
    from planner.services.fleet_text import both_headline as both_headline
    from planner.services.fleet_text import fleet_headline as fleet_headline
    from planner.services.fleet_text import render_services as render_services
    from planner.services.fleet_text import shared_lines as shared_lines
    from planner.services.frontier_together import frontier_of_jobs as frontier_of_jobs
    from planner.services.frontier_together import frontier_of_service as frontier_of_service
    from planner.services.kubernetes import export_all_services as export_all_services
    from planner.services.kubernetes import export_service as export_service
    from planner.services.kubernetes import service_checklist as service_checklist
    from planner.services.reasons_together import explain_together as explain_together
    from planner.services.served_kinds import choose_service as choose_service
    from planner.services.service_changes import compare_services_solved as compare_services_solved
    from planner.services.service_changes import what_if_of_services as what_if_of_services
    from planner.services.service_comparison_text import render_service_what_if as render_service_what_if
    from planner.services.service_comparison_text import service_lines as service_lines
    from planner.services.service_comparison_text import shares_of_settings as shares_of_settings
    from planner.services.service_curve import SERVICE_POINTS as SERVICE_POINTS
    from planner.services.service_curve import service_frontier as service_frontier
    from planner.services.service_explanation_text import render_reasons as render_reasons
    from planner.services.service_figures import latency_figures as latency_figures
    from planner.services.service_figures import load_figure as load_figure
    from planner.services.service_figures import service_frontier_scene as service_frontier_scene
    from planner.services.service_figures import service_simulation_scene as service_simulation_scene
    from planner.services.service_frontier_text import render_service_frontier as render_service_frontier
    from planner.services.service_groups import groups_of_services as groups_of_services
    from planner.services.service_parts import service_compared as service_compared
    from planner.services.service_parts import service_rows as service_rows
    from planner.services.service_parts import service_summary as service_summary
    from planner.services.service_parts import steps_data as steps_data
    from planner.services.service_reasons import explain_service as explain_service
    from planner.services.service_simulation import kind_bases as kind_bases
    from planner.services.service_simulation import simulate_service as simulate_service
    from planner.services.service_simulation_text import render_service_simulation as render_service_simulation
    from planner.services.service_simulation_text import service_replays as service_replays
    from planner.services.service_words import parts_explained as parts_explained
    from planner.services.service_words import reasons as reasons
    from planner.services.service_words import service_facts as service_facts
    from planner.services.service_words import tiles as tiles
    from planner.services.simulation_together import simulate_together as simulate_together
    from planner.services.solve_fleet import solve_together as solve_together

_NAMES_BY_MODULE = {
    "planner.services.audited_fleet": ("audit_services",),
    "planner.services.fleet_answer": ("fleet_risks", "render_fleet_answer"),
    "planner.services.fleet_refusals": ("ServiceTrial",),
    "planner.services.fleet_text": ("both_headline", "fleet_headline", "render_services", "shared_lines"),
    "planner.services.frontier_together": ("frontier_of_jobs", "frontier_of_service"),
    "planner.services.kubernetes": ("export_all_services", "export_service", "service_checklist"),
    "planner.services.reasons_together": ("explain_together",),
    "planner.services.served_kinds": ("choose_service",),
    "planner.services.service_changes": ("compare_services_solved", "what_if_of_services"),
    "planner.services.service_comparison_text": ("render_service_what_if", "service_lines", "shares_of_settings"),
    "planner.services.service_curve": ("SERVICE_POINTS", "service_frontier"),
    "planner.services.service_explanation_text": ("render_reasons",),
    "planner.services.service_figures": (
        "latency_figures",
        "load_figure",
        "service_frontier_scene",
        "service_simulation_scene",
    ),
    "planner.services.service_frontier_text": ("render_service_frontier",),
    "planner.services.service_groups": ("groups_of_services",),
    "planner.services.service_parts": ("service_compared", "service_rows", "service_summary", "steps_data"),
    "planner.services.service_reasons": ("explain_service",),
    "planner.services.service_simulation": ("kind_bases", "simulate_service"),
    "planner.services.service_simulation_text": ("render_service_simulation", "service_replays"),
    "planner.services.service_words": ("parts_explained", "reasons", "service_facts", "tiles"),
    "planner.services.simulation_together": ("simulate_together",),
    "planner.services.solve_fleet": ("solve_together",),
}

__getattr__ = on_first_use(__name__, _NAMES_BY_MODULE)
