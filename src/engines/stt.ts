import { capabilitiesOfEngine } from "../api/slot.ts";
import { containerNeeded, singleProcess } from "./single.ts";
import { silence } from "./silence.ts";
import { modelRefusal } from "./workload.ts";

/**
 * whisper.cpp's server (https://github.com/ggml-org/whisper.cpp/tree/master/examples/server): its image's entrypoint is
 * `bash -c`, so the launch line is one word. It handles one request at a time.
 */
export const stt = singleProcess({
  kind: "stt",
  capabilities: capabilitiesOfEngine.stt,
  // --convert writes ffmpeg's output beside the program; bash as first process forwards no TERM.
  needs: { port: 8080, writesRoot: true, needsInit: true },
  healthPath: "/health",
  launch(input, { host, port }) {
    const refusal =
      containerNeeded(input, "stt") ?? modelRefusal("stt", input.ref ?? input.slot, input.model, input.knownRefs);
    if (refusal !== undefined) return refusal;
    const model = ["--model", input.model?.path ?? "", "--inference-path", "/v1/audio/transcriptions", "--convert"];
    // whisper.cpp's own default is English, and lines that end within a word.
    const flags = [...model, "--language", "auto", "--split-on-word"];
    const listen = ["--host", host, "--port", String(port), "--threads", String(input.threads)];
    return { command: ["exec", "whisper-server", ...listen, ...flags], identity: flags };
  },
  join: (words) => [words.map(quoted).join(" ")],
  warmUp: () => ({
    path: "/v1/audio/transcriptions",
    fields: { response_format: "json" },
    file: { field: "file", name: "silence.wav", type: "audio/wav", base64: silence },
  }),
});

/** As one word for the shell. */
function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
