import type { ServerDevice, ServerFacts } from "./engine.ts";

/** A flag of every llama-server that Berth can start: a text without it is no help of llama.cpp. */
const oldestFlag = "--ctx-size";

/**
 * The facts of a `llama-server`, from the output of `--help` and of `--list-devices`, undefined where there was none.
 */
export function serverFacts(help: string | undefined, devices: string | undefined): ServerFacts {
  const flags = new Set(help?.match(/(?<![\w-])--?[a-z][a-z0-9-]*/g));
  return {
    flags: flags.has(oldestFlag) ? flags : undefined,
    hasTraceLevel: help !== undefined && /^\s*- 4: trace/m.test(help),
    devices: devices === undefined ? undefined : devicesIn(devices),
  };
}

/**
 * Lines such as `  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)`; undefined for a text without such a list.
 */
function devicesIn(text: string): readonly ServerDevice[] | undefined {
  if (!/^Available devices:/m.test(text)) return undefined;
  return [...text.matchAll(/^ {2}(\w+): (.*) \((\d+) MiB, \d+ MiB free\)\s*$/gm)].map(
    ([, id = "", name = "", mebibytes]) => ({ id, name, totalBytes: Number(mebibytes) * 1024 ** 2 }),
  );
}
