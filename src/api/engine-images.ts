import { z } from "zod";
import { engineKinds, type Backend } from "./names.ts";

export const imageDigestSchema = z.string().regex(/^sha256:[0-9a-f]{64}$/, "sha256: and 64 hexadecimal digits");

/** One image that runs an engine on one backend. Without a digest, the digest of the first pull is kept and used. */
const imagePinSchema = z.strictObject({ image: z.string().min(1), digest: imageDigestSchema.optional() });

const backendsOfImages = ["cpu", "vulkan", "rocm", "cuda", "npu"] as const satisfies readonly Exclude<
  Backend,
  "auto"
>[];

/** `manifests/engines.yaml`: by engine and backend. */
export const engineImagesSchema = z.strictObject({
  engines: z.partialRecord(z.enum(engineKinds), z.partialRecord(z.enum(backendsOfImages), imagePinSchema)),
});
export type EngineImages = z.output<typeof engineImagesSchema>["engines"];

/** `<state>/engines.lock.yaml`: the digest of the first pull, for each image without one. */
export const engineLockSchema = z.strictObject({ images: z.record(z.string(), imageDigestSchema) });
export type EngineLock = z.output<typeof engineLockSchema>["images"];
