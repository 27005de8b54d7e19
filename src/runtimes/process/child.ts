import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { closeSync, fstatSync, mkdirSync, openSync } from "node:fs";
import { userInfo } from "node:os";
import { dirname } from "node:path";
import { bearerSchema, type EnvValue, type Workload } from "../../api/workload.ts";
import { readEntry } from "../../lib/process-identity.ts";
import { readSecretFile, type SecretPlaces } from "../../lib/secret-file.ts";
import { UnfitFile } from "../../lib/small-file.ts";
import type { Ended } from "./exits.ts";
import { labelVariables, type Label } from "./label.ts";
import { BadWorkload, LogUnavailable } from "../start-failure.ts";
import { ownUser, type EngineUser } from "./user.ts";

/** The variables that engines inherit; the operator's other variables stay with the operator (DECISIONS 1). */
const inheritedNames =
  /^(PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|LD_LIBRARY_PATH|(CUDA|NVIDIA|HIP|ROCR|ROCM|HSA|GGML|VK|OMP)_[A-Z0-9_]+)$/;

/** The kernel's limit of one string in a program's environment (MAX_ARG_STRLEN: execve(2)). */
const variableLimitBytes = 131_072;

/** The private input of an engine. */
export interface Given {
  readonly env: Record<string, string>;
  /** The bearer that it will require of its clients. */
  readonly bearer?: string;
}

/**
 * The whole environment of an engine. `stateDir` is its home where neither the environment nor the user's account
 * names one, as in a container of any user: many programs end without a home. Throws BadWorkload, naming the
 * variable, for an unreadable value.
 */
export async function environmentFor(
  workload: Workload,
  secrets: SecretPlaces | undefined,
  inherited: NodeJS.ProcessEnv,
  label: Label,
  { user, stateDir }: { readonly user: EngineUser | undefined; readonly stateDir: string },
): Promise<Given> {
  const environment = inheritedPart(inherited);
  const home = user?.home ?? environment["HOME"] ?? accountHome() ?? stateDir;
  environment["HOME"] = home;
  // Python's setproctitle would otherwise overwrite the environment with the title, and our label with it.
  environment["SPT_NOENV"] = "1";
  const { env, ...bearer } = await givenTo(workload, secrets);
  return { env: { ...environment, ...env, ...labelVariables(label) }, ...bearer };
}

function accountHome(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    return undefined;
  }
}

/** The engines' part of the operator's environment. */
export function inheritedPart(inherited: NodeJS.ProcessEnv): Record<string, string> {
  const environment: Record<string, string> = {};
  for (const [name, value] of Object.entries(inherited)) {
    if (value !== undefined && inheritedNames.test(name)) environment[name] = value;
  }
  return environment;
}

/**
 * The manifest's variables with secrets read, and a bearer for this start where the engine supports one. A bearer in
 * the manifest is the engine's; an empty one leaves the engine without. Throws BadWorkload, naming the variable, for an
 * unreadable value.
 */
export async function givenTo(workload: Workload, secrets: SecretPlaces | undefined): Promise<Given> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(workload.env)) env[name] = await resolved(name, value, secrets);
  const name = workload.bearer?.env;
  if (name === undefined) return { env };
  const own = env[name];
  if (own === "") {
    delete env[name];
    return { env };
  }
  // llama-server accepts several, separated by commas.
  const bearer = own?.split(",")[0]?.trim() ?? randomBytes(32).toString("base64url");
  if (!bearerSchema.safeParse(bearer).success)
    throw new BadWorkload(`env.${name}: a key holds printable characters, and neither spaces nor commas`);
  env[name] = own ?? bearer;
  return { env, bearer };
}

/** Never quotes the value: it may be a secret, and the message is published. */
async function resolved(name: string, value: EnvValue, secrets: SecretPlaces | undefined): Promise<string> {
  let text: string;
  if (typeof value === "string") text = value;
  else if ("secretKeyRef" in value) {
    throw new BadWorkload(`env.${name}: a key of a Secret reaches Pods alone: use valueFrom.file`);
  } else {
    try {
      text = (await readSecretFile(value.file, variableLimitBytes, secrets)).replace(/\r?\n$/, "");
    } catch (error) {
      const why = error instanceof UnfitFile ? `: ${error.message}` : "";
      throw new BadWorkload(`env.${name}: its file cannot be read${why}`, { cause: error });
    }
  }
  if (text.includes("\0")) throw new BadWorkload(`env.${name}: its value holds a null byte`);
  return text;
}

export interface StartedChild {
  readonly pid: number;
  readonly startTime: string;
  /** The user that it runs as. */
  readonly uid: number;
  /** Size of the log before its first line. */
  readonly logOffset: number;
  readonly ended: Promise<Exclude<Ended, undefined>>;
}

/**
 * Starts the program detached, in a group and session of its own, its output appended to `logPath`: no pipe connects it
 * to this process, and none breaks when this process ends. Rejects with the system's reason.
 */
export async function startChild(
  workload: Workload,
  options: { readonly env: Record<string, string>; readonly logPath: string; readonly user: EngineUser | undefined },
): Promise<StartedChild> {
  const [program = "", ...args] = workload.command;
  if (program === "") throw new BadWorkload("its command names no program");
  const output = openLog(options.logPath);
  try {
    const logOffset = fstatSync(output).size;
    const child = spawn(program, args, {
      detached: true,
      stdio: ["ignore", output, output],
      env: options.env,
      ...(workload.workingDir === undefined ? {} : { cwd: workload.workingDir }),
      ...(options.user === undefined ? {} : { uid: options.user.uid, gid: options.user.gid }),
    });
    const ended = new Promise<Exclude<Ended, undefined>>((resolve) => {
      child.once("exit", (code, signal) => resolve({ code, signal }));
    });
    const { pid } = child;
    // Nothing reaps the child before this turn ends: even an ended child has its entry.
    const startTime = pid === undefined ? undefined : readEntry(pid)?.startTime;
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.on("error", reject);
    });
    child.unref();
    if (pid === undefined || startTime === undefined) throw new Error(`${program} was started but is not in /proc`);
    return { pid, startTime, uid: options.user?.uid ?? ownUser(), logOffset, ended };
  } finally {
    closeSync(output);
  }
}

function openLog(path: string): number {
  try {
    mkdirSync(dirname(path), { recursive: true });
    return openSync(path, "a", 0o640);
  } catch (error) {
    // Wrapped, so that its ENOENT does not mean a missing program.
    throw new LogUnavailable(`the log ${path} cannot be opened`, { cause: error });
  }
}
