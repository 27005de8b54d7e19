import type { Config } from "../../api/config.ts";
import type { HardwareFacts } from "../../api/hardware.ts";
import { findLlamaServer } from "../../program/llama-server.ts";
import { askServer } from "../../program/server-facts.ts";
import type { DeclaredSlots } from "./configuration.ts";
import { ok, warn, type Finding } from "./finding.ts";

const check = "gpu";
const build = "use a llama-server that is built for the GPU and finds the driver's libraries (LD_LIBRARY_PATH)";

/**
 * Whether the `llama-server` here can use the machine's GPUs and those that slots declare; no finding without either.
 */
export async function gpuFindings(
  { llamaServer, engineUser }: Config,
  {
    env,
    slots,
    facts,
  }: { readonly env: NodeJS.ProcessEnv; readonly slots: DeclaredSlots; readonly facts: HardwareFacts },
): Promise<Finding[]> {
  const program = await findLlamaServer(llamaServer, env).catch(() => undefined);
  if (program === undefined) return [];
  const { gpuBackends } = await import("../../engines/gpu-use.ts");
  const requesting = [...slots].flatMap(([name, { enabled, engine, backend, command, runtime }]) =>
    enabled && engine === "llama" && gpuBackends.has(backend) && command === undefined && runtime !== "docker"
      ? [name]
      : [],
  );
  const hasGpu = facts.gpus.some(({ backends }) => backends.length > 0);
  if (requesting.length === 0 && !hasGpu) return [];
  const { devices } = await askServer(program, { env, engineUser });
  if (devices === undefined)
    return [warn(check, `${program} --list-devices does not list its devices`, "ask it by hand")];
  if (devices.length > 0) {
    const list = devices.map(({ id, name }) => `${id} (${name})`).join(", ");
    return [ok(check, `llama-server computes on ${list}`)];
  }
  const what = `${program} --list-devices names no GPU`;
  return requesting.length > 0
    ? [warn(check, `${what}, which ${requesting.join(", ")} would compute on`, build)]
    : [warn(check, `${what}, and there is one: slots with backend auto compute on the CPU`, build)];
}
