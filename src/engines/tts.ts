import { capabilitiesOfEngine } from "../api/slot.ts";
import { containerNeeded, singleProcess } from "./single.ts";

/** Kokoro-FastAPI (https://github.com/remsky/Kokoro-FastAPI): the model is in its image, a slot's model names it. */
export const tts = singleProcess({
  kind: "tts",
  capabilities: capabilitiesOfEngine.tts,
  // The engine writes its cache of voices and temporary files among its own files.
  needs: { port: 8880, writesRoot: true },
  healthPath: "/health",
  launch: (input) => containerNeeded(input, "tts") ?? { command: [], identity: undefined },
  warmUp: () => ({ path: "/v1/audio/speech", body: { model: "kokoro", input: "hi", response_format: "wav" } }),
  servedModel: () => "kokoro",
  model: ({ model }) => (model?.state === "available" ? model : undefined),
});
