import type { SlotSpec } from "../api/slot.ts";
import type { EngineHost, EngineRefusal, SlotInputs } from "./engine.ts";
import { imageOf, isEmbeddedImage } from "./container-image.ts";

/** The programs of this installation that a slot may use: of two, the one that its manifest names. */
export function hostFor({ program }: Pick<SlotSpec, "program">, host: EngineHost): EngineHost {
  if (program === "llama-server") return { ...host, embedded: undefined };
  if (program !== "embedded") return host;
  const { server: _server, ...rest } = host;
  return { ...rest, llamaServer: undefined };
}

/** Whether llama.cpp's own server runs the slot; else the embedded engine does, which has fewer features. */
export function isServer(input: SlotInputs): boolean {
  if (input.placement.runs === "program") return input.host.llamaServer !== undefined;
  const image = imageOf(input);
  return typeof image === "string" && !isEmbeddedImage(image);
}

/** Says what a person does where the embedded engine does not suffice. */
export function serverRemedy({ spec, placement }: SlotInputs): string {
  if (spec.program === "embedded") return 'let the slot run llama-server, without program = "embedded"';
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
      message: missingProgram(spec),
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

function missingProgram({ program }: Pick<SlotSpec, "program">): string {
  const install = "run `berth engine install embedded`";
  if (program === "embedded") return `the embedded engine is not installed: ${install}`;
  const missing = "there is no llama-server on PATH";
  return program === "llama-server"
    ? `${missing}, nor does SVC_LLAMA_SERVER name one`
    : `${missing} and the embedded engine is not installed: ${install}`;
}
