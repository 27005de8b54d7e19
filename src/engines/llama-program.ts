import type { EngineRefusal, SlotInputs } from "./engine.ts";
import { imageOf, isEmbeddedImage } from "./container-image.ts";

/** Whether llama.cpp's own server runs the slot; else the embedded engine does, which has fewer features. */
export function isServer(input: SlotInputs): boolean {
  if (input.placement.runs === "program") return input.host.llamaServer !== undefined;
  const image = imageOf(input);
  return typeof image === "string" && !isEmbeddedImage(image);
}

/** What a person does where the embedded engine does not suffice. */
export function serverRemedy({ placement }: SlotInputs): string {
  return placement.runs === "program"
    ? "put a llama-server on PATH"
    : "let the container be of llama-server's own image: without SVC_LLAMA_IMAGE (llamaImage of the chart), or by the slot's image";
}

/** The program before the flags: none in a container, whose image has its own entrypoint. */
export function programOf(input: SlotInputs): { readonly command: readonly string[] } | EngineRefusal {
  const { spec, host, placement } = input;
  const { projector } = spec.model;
  if (projector !== undefined && !projector.startsWith("/")) {
    return {
      reason: "ProjectorNotFound",
      message: `this version finds a projector by its absolute path, or beside the model, not as ${projector}`,
    };
  }
  const isContainer = placement.runs !== "program";
  if (isServer(input)) return { command: isContainer || host.llamaServer === undefined ? [] : [host.llamaServer] };
  const missing = serverRemedy(input);
  if (!isContainer && host.embedded === undefined) {
    return {
      reason: "NoEngine",
      message:
        "there is no llama-server on PATH and the embedded engine is not installed: run `berth engine install embedded`",
    };
  }
  if (spec.backend !== "auto" && spec.backend !== "cpu") {
    return {
      reason: "NoBackend",
      message: `the embedded engine computes on the CPU only, not with ${spec.backend}: use backend = "auto" or ${missing}`,
    };
  }
  if (projector !== undefined) {
    return {
      reason: "NoProjector",
      message: `the embedded engine cannot see: ${missing}, or leave model.projector out`,
    };
  }
  return { command: isContainer ? [] : (host.embedded ?? []) };
}
