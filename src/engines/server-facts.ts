import type { ServerDevice, ServerFacts } from "./engine.ts";

/** A flag that llama-server has had for as long as Berth can start it: text without it is no help of llama.cpp's. */
const oldestFlag = "--ctx-size";

/** What a `llama-server` says of itself: the output of `--help` and of `--list-devices`, undefined where it had none. */
export function serverFacts(help: string | undefined, devices: string | undefined): ServerFacts {
  const flags = new Set(help?.match(/(?<![\w-])--?[a-z][a-z0-9-]*/g));
  return {
    flags: flags.has(oldestFlag) ? flags : undefined,
    hasTraceLevel: help !== undefined && /^\s*- 4: trace/m.test(help),
    devices: devices === undefined ? undefined : devicesIn(devices),
  };
}

/** Lines such as `  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)`; undefined where that is no such list. */
function devicesIn(text: string): readonly ServerDevice[] | undefined {
  if (!/^Available devices:/m.test(text)) return undefined;
  return [...text.matchAll(/^ {2}(\w+): (.*) \((\d+) MiB, \d+ MiB free\)\s*$/gm)].map(
    ([, id = "", name = "", mebibytes]) => ({ id, name, totalBytes: Number(mebibytes) * 1024 ** 2 }),
  );
}
