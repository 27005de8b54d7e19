import { abnormalTypes } from "../../src/api/conditions.ts";
import { figure, graph, type Dashboard } from "./dashboard.ts";

const slot = { name: "slot", metric: "berth_slot_state", label: "slot" } as const;
/** Requests without a slot, and those of providers, have labels of their own. */
const caller = { name: "slot", metric: "berth_requests_total", label: "slot" } as const;
const instance = { name: "instance", metric: 'up{job="berth"}', label: "instance" } as const;
const here = 'instance=~"$instance"';
const ofSlot = `slot=~"$slot",${here}`;
const window = "[$__rate_interval]";

const quantile = (part: number, metric: string, by: string, selector = here): string =>
  `histogram_quantile(${part}, sum by (${by}, le) (rate(${metric}_bucket{${selector}}${window})))`;
/** As BerthNeedsPerson: a provider that fails has an alert of its own. */
const troubles = `type=~"${abnormalTypes.join("|")}",status="True",reason!~"CircuitOpen|ModelsPaused"`;

/** Gateways publish the same states and conditions: each is counted once. */
const overview: Dashboard = {
  name: "overview",
  title: "Berth: overview",
  variables: [instance],
  panels: [
    figure("Slots that answer", "short", `sum(max by (slot) (berth_slot_state{state=~"ready|serving|idle",${here}}))`),
    figure(
      "Resources that need a person",
      "short",
      `count(max by (kind, name) (berth_condition{${troubles},${here}})) or vector(0)`,
    ),
    figure("Requests in flight", "short", `sum(berth_requests_in_flight{${here}})`),
    figure("Operator", "bool_on_off", `min(berth_operator_live{${here}})`),
    graph("Requests", "reqps", [`sum by (code) (rate(berth_requests_total{${here}}${window}))`, "{{code}}"]),
    graph("Tokens of answers per second", "cps", ["berth:tokens_out:rate5m", "{{slot}}"]),
    graph(
      "Time to the first token",
      "s",
      [quantile(0.5, "berth_time_to_first_token_seconds", "slot"), "{{slot}}, half"],
      [quantile(0.95, "berth_time_to_first_token_seconds", "slot"), "{{slot}}, 95 %"],
    ),
    graph(
      "Requests that wait",
      "short",
      [`sum by (slot) (berth_requests_held{${here}})`, "{{slot}} held"],
      [`sum by (slot) (berth_requests_queued{${here}})`, "{{slot}} queued"],
    ),
    graph("Part of requests that fail", "percentunit", ["berth:requests_failed:ratio_rate5m", "{{slot}}"]),
    graph(
      "Providers that are left alone",
      "short",
      [`1 - min by (upstream) (berth_upstream_circuit{state="closed",${here}})`, "{{upstream}}"],
      [`max by (upstream) (berth_upstream_models_paused{${here}})`, "{{upstream}}, models"],
    ),
  ],
};

const oneSlot: Dashboard = {
  name: "slot",
  title: "Berth: slot",
  variables: [instance, slot],
  panels: [
    figure("State", "short", `max by (slot, state) (berth_slot_state{${ofSlot}} == 1)`, "{{slot}} {{state}}"),
    figure("Engines that are ready", "short", `sum(berth_slot_replicas{${ofSlot},state="ready"})`),
    figure("Engines that are wanted", "short", `sum(berth_slot_replicas{${ofSlot},state="wanted"})`),
    figure(
      "Starts after a failure",
      "short",
      `sum(berth_slot_restarts_total{${ofSlot},reason!="Earlier"}) or vector(0)`,
    ),
    graph("Tokens per second", "cps", [
      `sum by (slot, direction) (rate(berth_tokens_total{${ofSlot}}${window}))`,
      "{{slot}} {{direction}}",
    ]),
    graph(
      "Time between tokens",
      "s",
      [quantile(0.5, "berth_time_between_tokens_seconds", "slot", ofSlot), "{{slot}}, half"],
      [quantile(0.99, "berth_time_between_tokens_seconds", "slot", ofSlot), "{{slot}}, 99 %"],
    ),
    graph(
      "Requests",
      "short",
      [`sum by (slot) (berth_requests_in_flight{${ofSlot}})`, "{{slot}} in flight"],
      [`sum by (slot) (berth_requests_queued{${ofSlot}})`, "{{slot}} queued"],
    ),
    graph("Memory of the machine", "bytes", [
      `sum by (slot) (berth_slot_memory_bytes{${ofSlot},device="host"})`,
      "{{slot}}",
    ]),
    graph("Memory of GPUs", "bytes", [
      `sum by (slot, device) (berth_slot_memory_bytes{${ofSlot},device!="host"}) or on () vector(0)`,
      "{{slot}} {{device}}",
    ]),
    graph("Failures in a row", "short", [`max by (slot) (berth_slot_failures{${ofSlot}})`, "{{slot}}"]),
    graph("Time to load, mean of an hour", "s", [
      `sum by (slot, phase) (increase(berth_slot_load_seconds_sum{${ofSlot}}[1h])) / sum by (slot, phase) (increase(berth_slot_load_seconds_count{${ofSlot}}[1h]))`,
      "{{slot}} {{phase}}",
    ]),
    graph("Moves into a state in an hour", "short", [
      `sum by (slot, to) (increase(berth_slot_transitions_total{${ofSlot}}[1h]))`,
      "{{slot}} {{to}}",
    ]),
  ],
};

const callers: Dashboard = {
  name: "callers",
  title: "Berth: what callers feel",
  variables: [instance, caller],
  panels: [
    figure("First tokens within 2.56 s", "percentunit", '1 - max(berth:first_token_slow:ratio_rate1h{slot=~"$slot"})'),
    figure("Requests that fail, last hour", "percentunit", 'max(berth:requests_failed:ratio_rate1h{slot=~"$slot"})'),
    figure("Clients that left", "reqps", `sum(rate(berth_requests_total{code="499",${ofSlot}}${window})) or vector(0)`),
    figure("Requests refused by authentication", "reqps", `sum(rate(berth_auth_refusals_total{${here}}${window}))`),
    graph(
      "Time to the first token, of loaded slots and of others",
      "s",
      [quantile(0.5, "berth_time_to_first_token_seconds", "slot, start", ofSlot), "{{slot}} {{start}}, half"],
      [quantile(0.95, "berth_time_to_first_token_seconds", "slot, start", ofSlot), "{{slot}} {{start}}, 95 %"],
    ),
    graph(
      "Duration",
      "s",
      [quantile(0.5, "berth_request_duration_seconds", "route", ofSlot), "{{route}}, half"],
      [quantile(0.95, "berth_request_duration_seconds", "route", ofSlot), "{{route}}, 95 %"],
    ),
    graph("Time to the first byte, 95 %", "s", [
      quantile(0.95, "berth_time_to_first_byte_seconds", "slot", ofSlot),
      "{{slot}}",
    ]),
    graph(
      "Held until the slot was loaded, 95 %",
      "s",
      [quantile(0.95, "berth_request_hold_seconds", "slot", ofSlot), "{{slot}} held"],
      [quantile(0.95, "berth_request_wait_seconds", "slot", ofSlot), "{{slot}} held or queued"],
    ),
    graph("Refused, failed and cut", "reqps", [
      `sum by (slot, error, answer, reason) (rate(berth_request_failures_total{${ofSlot}}${window}))`,
      "{{slot}} {{error}} {{answer}} {{reason}}",
    ]),
    graph("Streams that serve several clients", "short", [`sum(berth_shared_stream_readers{${here}})`, "clients"]),
  ],
};

const machine: Dashboard = {
  name: "machine",
  title: "Berth: machine",
  variables: [instance],
  panels: [
    figure(
      "Memory that is free",
      "percentunit",
      `min(berth_host_memory_available_bytes{${here}} / berth_host_memory_total_bytes{${here}})`,
    ),
    figure(
      "Memory of GPUs that is free",
      "percentunit",
      `min(berth_gpu_memory_free_bytes{${here}} / berth_gpu_memory_total_bytes{${here}}) or vector(0)`,
    ),
    figure("Memory of engines", "bytes", `sum(berth_slot_memory_bytes{${here},device="host"})`),
    figure("Memory of engines on GPUs", "bytes", `sum(berth_slot_memory_bytes{${here},device!="host"}) or vector(0)`),
    graph(
      "Memory of engines and what is left",
      "bytes",
      [`sum by (slot) (berth_slot_memory_bytes{${here},device="host"})`, "{{slot}}"],
      [`min by (instance) (berth_host_memory_available_bytes{${here}})`, "{{instance}} left"],
    ),
    graph(
      "Memory of engines on GPUs and what is left",
      "bytes",
      [
        `sum by (slot, device) (berth_slot_memory_bytes{${here},device!="host"}) or on () vector(0)`,
        "{{slot}} {{device}}",
      ],
      [
        `min by (instance, device) (berth_gpu_memory_free_bytes{${here}}) or on () vector(0)`,
        "{{instance}} {{device}} left",
      ],
    ),
    graph("Part of the budget of groups that is used", "percentunit", [
      `berth_group_used_bytes{${here}} / berth_group_budget_bytes or berth_group_used_slots{${here}} / berth_group_budget_slots`,
      "{{group}} {{device}}",
    ]),
    graph("Memory of Berth", "bytes", [`process_resident_memory_bytes{job="berth",${here}}`, "{{part}} {{instance}}"]),
    graph("Processors used by Berth", "percentunit", [
      `rate(process_cpu_seconds_total{job="berth",${here}}${window})`,
      "{{part}} {{instance}}",
    ]),
    graph("Files and connections", "short", [`process_open_fds{job="berth",${here}}`, "{{part}} {{instance}}"]),
    graph("Models over the network", "Bps", [
      `sum by (instance) (rate(berth_pull_bytes_total{${here}}${window}))`,
      "{{instance}}",
    ]),
    graph("Delay of the event loop, longest", "s", [
      `nodejs_eventloop_lag_max_seconds{job="berth",${here}}`,
      "{{part}} {{instance}}",
    ]),
  ],
};

const operator: Dashboard = {
  name: "operator",
  title: "Berth: operator",
  variables: [instance],
  panels: [
    figure("Slots that wait for a reconcile", "short", `max(berth_reconcile_queue_depth{${here}})`),
    figure("Longest wait", "s", `max(berth_reconcile_queue_oldest_seconds{${here}})`),
    figure("Stalled connections of pulls", "short", `sum(berth_pull_stalls_total{${here}})`),
    graph("Reconciles", "cps", [
      `sum by (kind, outcome) (rate(berth_reconcile_total{${here}}${window}))`,
      "{{kind}} {{outcome}}",
    ]),
    graph("Duration of a reconcile, 95 %", "s", [
      quantile(0.95, "berth_reconcile_duration_seconds", "kind"),
      "{{kind}}",
    ]),
    graph("Slots by state", "short", [`sum by (state) (berth_operator_slot_state{${here}})`, "{{state}}"]),
    graph(
      "Slots that wait for a place in their group",
      "short",
      [`max by (group) (berth_group_waiting{${here}})`, "{{group}}"],
      [`max by (group) (berth_group_lent{${here}})`, "{{group}} lent"],
    ),
    graph("Wait for a place in a group, mean of an hour", "s", [
      `sum by (group) (increase(berth_group_wait_seconds_sum{${here}}[1h])) / sum by (group) (increase(berth_group_wait_seconds_count{${here}}[1h]))`,
      "{{group}}",
    ]),
    graph("Slots that had to leave in an hour", "short", [
      `sum by (group, reason) (increase(berth_group_evictions_total{${here}}[1h]))`,
      "{{group}} {{reason}}",
    ]),
    graph("Foreign changes undone", "short", [
      `sum by (slot, reason) (increase(berth_drift_repaired_total{${here}}[1h])) or on () vector(0)`,
      "{{slot}} {{reason}}",
    ]),
    graph("Conditions", "short", [
      `sum by (kind, type, status, reason) (max by (kind, name, type, status, reason) (berth_condition{${here}}))`,
      "{{kind}} {{type}} {{status}} {{reason}}",
    ]),
  ],
};

export const dashboards: readonly Dashboard[] = [overview, oneSlot, callers, machine, operator];
