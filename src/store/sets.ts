import type { z } from "zod";
import { groupLoanSchema, publishedGroupsSchema } from "../api/group-status.ts";
import { probeRequestSchema, publishedHardwareSchema } from "../api/hardware.ts";
import { modelTaskAnswerSchema, modelTaskSchema, type ModelTaskAnswer } from "../api/model-task.ts";
import { publishedPullsSchema, pullRequestSchema } from "../api/pull.ts";
import { installationSchema } from "../api/state-format.ts";
import { slotRequestSchema } from "../api/status.ts";
import type { DeclaredSet } from "./document-set.ts";

/** Every set of documents that operator and gateways share. */
export const sets = {
  /** Restart, load, unload and swap requests, one for each slot and kind. */
  slotRequests: requested("requests", slotRequestSchema, ({ slot, kind }) => `${slot}.${kind}`),
  /** The last request for another probe; never removed. */
  probeRequests: requested("probe-requests", probeRequestSchema, () => "request"),
  hardware: published("hardware", publishedHardwareSchema, "found"),
  /** Also loans that are over. */
  loans: requested("loans", groupLoanSchema, ({ group }) => group),
  groups: published("groups", publishedGroupsSchema, "status"),
  pullRequests: requested("pull-requests", pullRequestSchema, ({ id }) => id),
  pulls: published("pulls", publishedPullsSchema, "status"),
  /** Until the operator has answered. For operator and gateways, which may be users of one group. */
  modelTasks: requested("model-tasks", modelTaskSchema, ({ id }) => id, 0o640),
  /** By the ids of their tasks, until the gateway that asked has read them. */
  modelAnswers: {
    set: "model-answers",
    schema: modelTaskAnswerSchema,
    nameOf: ({ answers }) => answers,
    isTolerant: true,
    mode: 0o640,
  } satisfies DeclaredSet<ModelTaskAnswer>,
};

/** The name of an installation, in a cluster alone. */
export const installationSet = requested("installation", installationSchema, () => "installation");

/** Documents that must outlive who writes them, such as requests. */
function requested<T>(set: string, schema: z.ZodType<T>, nameOf: (value: T) => string, mode?: number): DeclaredSet<T> {
  return { set, schema, nameOf, isLasting: true, ...(mode === undefined ? {} : { mode }) };
}

/** A document that the operator writes, and could write again. */
function published<T>(set: string, schema: z.ZodType<T>, name: string): DeclaredSet<T> {
  return { set, schema, nameOf: () => name, isTolerant: true, isKept: true };
}
