import type { Config } from "../../api/config.ts";
import { errorCode, errorMessage } from "../../lib/error-code.ts";
import { ProgramFailed, programOutput } from "../../lib/program-output.ts";
import { findLlamaServer } from "../../program/llama-server.ts";
import type { DeclaredSlots } from "./configuration.ts";
import { fail, ok, warn, type Finding } from "./finding.ts";

/** The time limit for a program's `--version`. */
const versionMs = 20_000;

export interface EngineSite {
  readonly env: NodeJS.ProcessEnv;
  /** Program and arguments of the embedded engine, where it is installed. */
  readonly embedded: readonly string[] | undefined;
  readonly slots: DeclaredSlots;
}

/**
 * The programs that run engines here: `llama-server` or the embedded engine for processes, Docker or Podman for
 * containers. Nothing is needed here where they run as Pods.
 */
export async function engineFindings(config: Config, { env, embedded, slots }: EngineSite): Promise<Finding[]> {
  const { store, runtime } = config;
  if (store === "kubernetes" && (runtime === "auto" || runtime === "kubernetes"))
    return [ok("engines", "run as Pods of the cluster")];
  const docker = await dockerFinding(config, slots);
  return [await llamaFinding(config, { env, embedded, slots, hasDocker: docker.isThere }), docker.finding];
}

async function llamaFinding(
  { llamaServer, runtime }: Config,
  { env, embedded, slots, hasDocker }: EngineSite & { readonly hasDocker: boolean },
): Promise<Finding> {
  const check = "llama engine";
  let program: string | undefined;
  try {
    program = await findLlamaServer(llamaServer, env);
  } catch (error) {
    return fail(check, errorMessage(error), "correct SVC_LLAMA_SERVER, or unset it");
  }
  const install = "`berth engine install embedded`, or put llama-server on PATH";
  const found = { "llama-server": program, embedded };
  const without = [...slots].filter(([, spec]) => spec.enabled && spec.program && found[spec.program] === undefined);
  if (without.length > 0)
    return fail(
      check,
      `the program is not here that these slots name: ${without.map(([name]) => name).join(", ")}`,
      install,
    );
  if (program !== undefined) {
    try {
      // With the operator's environment: a build for CUDA or ROCm may need LD_LIBRARY_PATH.
      const { inheritedPart } = await import("../../runtimes/process/child.ts");
      const signal = AbortSignal.timeout(versionMs);
      await programOutput(program, ["--version"], { signal, env: inheritedPart(env) });
      return ok(check, `llama-server at ${program}`);
    } catch (error) {
      return fail(check, `${program} does not run: ${whyEnded(error)}`, "build it again for this machine");
    }
  }
  if (embedded !== undefined) return ok(check, `the embedded one, ${embedded.at(-1) ?? ""}`);
  if (hasDocker && runtime !== "process") return ok(check, "none as a process; containers run it");
  const waiting = [...slots].filter(
    ([, { enabled, engine, command, runtime: kind }]) =>
      enabled && engine === "llama" && command === undefined && kind !== "docker",
  );
  return waiting.length === 0
    ? warn(check, "neither llama-server nor the embedded engine is here", install)
    : fail(check, `none is here, and ${waiting.map(([name]) => name).join(", ")} need it`, install);
}

async function dockerFinding(
  { dockerHost, runtime }: Config,
  slots: DeclaredSlots,
): Promise<{ readonly finding: Finding; readonly isThere: boolean }> {
  const check = "containers";
  const users = [...slots].filter(([, spec]) => spec.enabled && spec.runtime === "docker").map(([name]) => name);
  const isNeeded = runtime === "docker" || users.length > 0;
  if (runtime === "process" && !isNeeded)
    return { finding: ok(check, "not used: SVC_RUNTIME is process"), isThere: false };
  const { Daemon } = await import("../../runtimes/docker/daemon.ts");
  const daemon = Daemon.at(dockerHost);
  try {
    const name = (await daemon.isPodman()) ? "Podman" : "Docker";
    return { finding: ok(check, `${name} answers at ${daemon.path}`), isThere: true };
  } catch (error) {
    const why = errorMessage(error);
    if (isNeeded) {
      const who = users.length > 0 ? `${users.join(", ")} need it` : "SVC_RUNTIME is docker";
      return { finding: fail(check, why, `start it, or have slots run as processes: ${who}`), isThere: false };
    }
    const cause = error instanceof Error ? errorCode(error.cause) : undefined;
    if (cause === "ENOENT")
      return { finding: ok(check, `${daemon.path} is not there: engines run as processes`), isThere: false };
    return {
      finding: warn(check, why, "until it answers, engines run as processes; SVC_RUNTIME=process says so"),
      isThere: false,
    };
  }
}

/** The outcome of `--version`. */
function whyEnded(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error.name === "TimeoutError") return `no output within ${versionMs / 1000} s`;
  if (error instanceof ProgramFailed && error.exitCode !== null) return `--version ends with code ${error.exitCode}`;
  return errorCode(error) ?? "--version ends by a signal";
}
