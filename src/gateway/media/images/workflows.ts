import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { ApiError } from "../../../api/errors.ts";
import { imageWorkflowSchema, type ImageWorkflow, type UnavailableWorkflow } from "./workflow-format.ts";
import type { ImageRequest } from "./request.ts";

export type Workflows = ReadonlyMap<string, ImageWorkflow | UnavailableWorkflow>;
export type Graph = ImageWorkflow["graph"];

/** The shipped workflows, by curated id. Throws for a missing or invalid file. */
export function loadWorkflows(
  dir = fileURLToPath(new URL("../../../../manifests/workflows", import.meta.url)),
): Workflows {
  const found = new Map<string, ImageWorkflow | UnavailableWorkflow>();
  for (const name of readdirSync(dir).toSorted()) {
    if (!name.endsWith(".json")) continue;
    const workflow = imageWorkflowSchema.parse(JSON.parse(readFileSync(join(dir, name), "utf8")));
    found.set(workflow.id, workflow);
  }
  return found;
}

/** The facts of the `img` slot that decide which model a name means. */
export interface ImageSlotNames {
  /** `img` and its aliases: they mean the slot's own model. */
  readonly names: readonly string[];
  /** The slot's present ref. */
  readonly held: string | undefined;
}

/**
 * The workflow for the client's model name: a curated id, `img:<curated id>`, or the slot's own name for its model.
 * Throws ApiError `model.not_found` for any other name, `model.not_loaded` where the slot's model cannot draw,
 * `system.not_implemented` for a curated model without a workflow.
 */
export function workflowFor(workflows: Workflows, model: string, slot: ImageSlotNames): ImageWorkflow {
  const usable = [...workflows.values()].flatMap((each) => ("graph" in each ? [each.id] : []));
  const isSlot = slot.names.includes(model);
  const [before = "", ...after] = model.split(":");
  const ref = isSlot ? slot.held : slot.names.includes(before) && after.length > 0 ? after.join(":") : model;
  const found = ref === undefined ? undefined : workflows.get(ref);
  if (found === undefined && isSlot) {
    const holds = ref === undefined ? "no model" : `${ref}, which no workflow can draw with`;
    throw new ApiError("model.not_loaded", {
      message: `slot img holds ${holds}; ask for ${usable.join(" or ")}`,
      details: { ref: ref ?? null, slots: ["img"] },
    });
  }
  if (found === undefined) {
    throw new ApiError("model.not_found", {
      message: `no image model is called "${model.slice(0, 200)}"; there are ${usable.join(" and ")}`,
      details: { suggestions: usable },
    });
  }
  if ("unavailable" in found) {
    throw new ApiError("system.not_implemented", {
      message: found.unavailable,
      details: { model: found.id, usable },
    });
  }
  return found;
}

/** The workflow's graph with the request's values. The workflow itself is not changed. */
export function fillGraph(workflow: ImageWorkflow, request: ImageRequest, seed: number): Graph {
  const { defaults, parameters, checkpoint } = workflow;
  const values = [
    [parameters.checkpoint, checkpoint],
    [parameters.prompt, request.prompt],
    [parameters.negativePrompt, request.negativePrompt ?? defaults.negativePrompt],
    [parameters.width, request.size?.width ?? defaults.width],
    [parameters.height, request.size?.height ?? defaults.height],
    [parameters.count, request.count],
    [parameters.seed, seed],
    [parameters.steps, request.steps ?? defaults.steps],
    [parameters.cfg, request.cfg ?? defaults.cfg],
  ] as const;
  const graph = structuredClone(workflow.graph);
  for (const [target, value] of values) {
    const [node = "", input = ""] = target.split(".");
    const inputs = graph[node]?.inputs;
    if (inputs !== undefined) inputs[input] = value;
  }
  return graph;
}
