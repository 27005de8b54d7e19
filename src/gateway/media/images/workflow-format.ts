import { z } from "zod";

/** The input for a value in a graph: `<node>.<input>`. */
const target = z.string().regex(/^[^.]+\.[^.]+$/, "must be <node>.<input>");

const parameters = z.strictObject({
  checkpoint: target,
  prompt: target,
  negativePrompt: target,
  width: target,
  height: target,
  count: target,
  seed: target,
  steps: target,
  cfg: target,
});

const usable = z
  .strictObject({
    /** The curated model of this workflow. */
    id: z.string().min(1),
    /** File name in ComfyUI's `models/checkpoints`. */
    checkpoint: z.string().min(1),
    defaults: z.strictObject({
      width: z.int().positive(),
      height: z.int().positive(),
      steps: z.int().positive(),
      cfg: z.number().min(0),
      negativePrompt: z.string(),
    }),
    parameters,
    /** A graph in ComfyUI's API format, as "Export (API)" in its menu writes it. */
    graph: z.record(z.string(), z.looseObject({ class_type: z.string(), inputs: z.record(z.string(), z.unknown()) })),
  })
  .superRefine(({ parameters, graph }, context) => {
    for (const [name, where] of Object.entries(parameters)) {
      const [node = "", input = ""] = where.split(".");
      if (graph[node]?.inputs[input] === undefined)
        context.addIssue({ code: "custom", path: ["parameters", name], message: `the graph has no input ${where}` });
    }
  });

/** A model of the catalogue that no workflow supports yet, with the reason. */
const unavailable = z.strictObject({ id: z.string().min(1), unavailable: z.string().min(1) });

/** One file of `manifests/workflows/`. */
export const imageWorkflowSchema = z.union([usable, unavailable]);

export type ImageWorkflow = z.infer<typeof usable>;
export type UnavailableWorkflow = z.infer<typeof unavailable>;
