import { repositoryOf } from "../api/image-reference.ts";
import type { EngineKind } from "../api/names.ts";
import type { EngineRefusal, SlotInputs } from "./engine.ts";

/**
 * The reference of the image that runs the slot: the manifest's own, else the shipped one for its engine and backend;
 * by digest where it is known, since a tag may move.
 */
export function imageOf(input: SlotInputs): string | EngineRefusal {
  const { spec, placement } = input;
  const { backend, images, lock } = placement;
  const pin = spec.image === undefined ? images[spec.engine]?.[backend] : { image: spec.image, digest: undefined };
  if (pin === undefined) return noImage(spec.engine, backend);
  const digest = spec.imageDigest ?? pin.digest ?? lock[pin.image];
  return digest === undefined || pin.image.includes("@") ? pin.image : `${repositoryOf(pin.image)}@${digest}`;
}

/** An image of the embedded engine: it accepts llama-server's flags and has fewer routes. */
export function isEmbeddedImage(image: string): boolean {
  return repositoryOf(image).split("/").at(-1) === "berth-embedded";
}

/** Why there is no image, where the reason is known. */
const unavailable: Readonly<Partial<Record<EngineKind, Readonly<Record<string, string>>>>> = {
  tts: { vulkan: "Kokoro has no Vulkan build" },
  image: { rocm: "ComfyUI publishes no image" },
  npu: { npu: "FastFlowLM publishes no image" },
};

function noImage(engine: EngineKind, backend: string): EngineRefusal {
  const why = unavailable[engine]?.[backend] ?? `no image of the ${engine} engine is known for ${backend}`;
  return { reason: "NoImage", message: `${why}: name one in the manifest, image = "…"` };
}
