import { capabilitiesOfEngine } from "../api/slot.ts";
import { containerNeeded, singleProcess } from "./single.ts";

/**
 * ComfyUI (https://docs.comfy.org/development/comfyui-server/comms_routes): started by its image's entrypoint, with the
 * manifest's arguments. A model is loaded by the first drawing that names it.
 */
export const image = singleProcess({
  kind: "image",
  capabilities: capabilitiesOfEngine.image,
  // The engine writes drawings, previews and a cache of nodes among its own files.
  needs: { port: 8188, writesRoot: true, needsInit: true },
  healthPath: "/system_stats",
  launch: (input) => containerNeeded(input, "image") ?? { command: [], identity: undefined },
  warmUp: () => undefined,
  model: ({ model }) => (model?.state === "available" ? model : undefined),
});
