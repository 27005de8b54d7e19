import { spawn, type ChildProcess } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { EnvValue, Workload } from "../api/workload.ts";

/** What engines inherit; everything else of the operator's environment stays with the operator (DECISIONS 1). */
const inheritedNames =
  /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|CUDA_[A-Z_]+|NVIDIA_[A-Z_]+|HIP_[A-Z_]+|ROCR_[A-Z_]+|HSA_[A-Z_]+|GGML_[A-Z_]+|VK_[A-Z_]+|OMP_[A-Z_]+)$/;

export interface Label {
  readonly BERTH_INSTANCE: string;
  readonly BERTH_SLOT: string;
  readonly BERTH_ROLE: string;
  readonly BERTH_HASH: string;
  readonly BERTH_PORT: string;
}

/** The whole environment of an engine. Throws when a `valueFrom` file cannot be read, naming the variable. */
export async function environmentFor(
  workload: Workload,
  inherited: NodeJS.ProcessEnv,
  label: Label,
): Promise<Record<string, string>> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(inherited)) {
    if (value !== undefined && inheritedNames.test(name)) environment[name] = value;
  }
  for (const [name, value] of Object.entries(workload.env)) environment[name] = await resolved(name, value);
  return { ...environment, ...label };
}

async function resolved(name: string, value: EnvValue): Promise<string> {
  if (typeof value === "string") return value;
  try {
    return (await readFile(value.file, "utf8")).trimEnd();
  } catch (error) {
    throw new Error(`env.${name}: its file cannot be read`, { cause: error });
  }
}

/**
 * Starts the program detached, in a group and session of its own, its output appended to `logPath`: no pipe ties it
 * to this process. Rejects with the system's reason when it cannot be started.
 */
export async function startChild(
  workload: Workload,
  options: { env: Record<string, string>; logPath: string; uid?: number; gid?: number },
): Promise<ChildProcess> {
  const [program = "", ...args] = workload.command;
  const output = openSync(options.logPath, "a", 0o640);
  try {
    const child = spawn(program, args, {
      detached: true,
      stdio: ["ignore", output, output],
      env: options.env,
      ...(workload.workingDir === undefined ? {} : { cwd: workload.workingDir }),
      ...(options.uid === undefined ? {} : { uid: options.uid }),
      ...(options.gid === undefined ? {} : { gid: options.gid }),
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    child.unref();
    return child;
  } finally {
    closeSync(output);
  }
}
