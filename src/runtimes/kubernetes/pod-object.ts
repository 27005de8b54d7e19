import { z } from "zod";
import { podLabelIn, type PodLabel } from "./pod-label.ts";

const terminatedSchema = z.object({
  exitCode: z.int(),
  signal: z.int().optional(),
  reason: z.string().optional(),
  message: z.string().optional(),
  startedAt: z.string().nullish(),
  finishedAt: z.string().nullish(),
});
export type Terminated = z.infer<typeof terminatedSchema>;

const stateSchema = z.object({
  waiting: z.object({ reason: z.string().optional(), message: z.string().optional() }).optional(),
  running: z.object({ startedAt: z.string().nullish() }).optional(),
  terminated: terminatedSchema.optional(),
});

const containerStatusSchema = z.object({
  name: z.string(),
  state: stateSchema.default({}),
  lastState: stateSchema.default({}),
  restartCount: z.int().default(0),
  started: z.boolean().nullish(),
  imageID: z.string().optional(),
});
export type ContainerStatus = z.infer<typeof containerStatusSchema>;

const conditionSchema = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().nullish(),
  message: z.string().nullish(),
});

/** The parts of a Pod that the runtime reads. */
const podSchema = z.object({
  metadata: z.object({
    name: z.string(),
    uid: z.string(),
    deletionTimestamp: z.string().nullish(),
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
  }),
  spec: z.object({
    nodeName: z.string().optional(),
    containers: z
      .array(
        z.object({
          name: z.string(),
          image: z.string().optional(),
          resources: z
            .object({ limits: z.record(z.string(), z.union([z.string(), z.number()])).optional() })
            .optional(),
        }),
      )
      .default([]),
    initContainers: z.array(z.object({ name: z.string(), restartPolicy: z.string().optional() })).default([]),
  }),
  status: z
    .object({
      phase: z.string().optional(),
      reason: z.string().optional(),
      message: z.string().optional(),
      podIP: z.string().optional(),
      conditions: z.array(conditionSchema).default([]),
      initContainerStatuses: z.array(containerStatusSchema).default([]),
      containerStatuses: z.array(containerStatusSchema).default([]),
    })
    .prefault({}),
});
type PodObject = z.infer<typeof podSchema>;

/** A Pod of ours as the API server described it last. */
export interface Pod extends PodObject {
  readonly label: PodLabel;
}

/** Undefined for what is no Pod of this installation. */
export function readPod(object: unknown, instance: string): Pod | undefined {
  const pod = podSchema.safeParse(object).data;
  if (pod === undefined) return undefined;
  const label = podLabelIn(pod.metadata.labels, pod.metadata.annotations, instance);
  return label === undefined ? undefined : { ...pod, label };
}
