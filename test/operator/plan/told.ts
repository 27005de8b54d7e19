import assert from "node:assert/strict";
import type { Step } from "../../../src/api/plan.ts";
import type { SlotInput } from "../../../src/operator/plan/input.ts";
import { plan } from "../../../src/operator/plan/plan.ts";
import { epoch } from "../fixture.ts";

/**
 * The whole decision in two lines: what it says of the slot, then its steps and what follows. A reason of a step or a
 * failure is left out where it is the message. Times are seconds since the epoch of the tests.
 */
export function decided(given: SlotInput): [said: string, done: string] {
  const { check, state, severity, isServed: _isServed, reason, message, steps, ...rest } = plan(Object.freeze(given));
  const { failure, requeueMs, isDeleted, phase: _phase, parts: _parts, ...others } = rest;
  assert.deepEqual(others, {});
  const done = [
    steps.map((step) => describe(step, message)).join(", "),
    failure === undefined
      ? ""
      : `fails${failure.isTerminal ? " for good" : ""}${failure.isSteady ? " after long" : ""}`,
    requeueMs === undefined ? "" : `again in ${requeueMs / 1000} s`,
    isDeleted === true ? "deleted" : "",
  ];
  if (failure !== undefined) assert.deepEqual([failure.reason, failure.message], [reason, message]);
  return [`${check}: ${state} ${severity} ${reason}: ${message}`, done.filter((part) => part !== "").join("; ")];
}

function describe({ do: done, reason, ...details }: Step, message: string): string {
  const words = Object.entries(details).map(([key, value]) => {
    if (value === true) return key;
    return key === "until" || key === "deadline" ? `until ${seconds(String(value))} s` : String(value);
  });
  return [done, ...words, ...(reason === message ? [] : [`(${reason})`])].join(" ");
}

function seconds(time: string): number {
  return (Date.parse(time) - epoch.getTime()) / 1000;
}
