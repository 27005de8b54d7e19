import { existsSync } from "node:fs";
import { join } from "node:path";
import { errorMessage } from "../../lib/error-code.ts";
import { programOutput, ProgramFailed } from "../../lib/program-output.ts";

/** The units of Berth, without the ending `.service`. */
export type Unit = "berth-operator" | "berth-gateway" | "berth-gateway-standby";

/** The service manager, as installation, update and removal need it. Each action rejects with ServiceFailed. */
export interface Services {
  /** The manager of the machine, that of one user, or none. */
  readonly kind: "system" | "user" | "none";
  start(unit: Unit): Promise<void>;
  /** Resolves once every process of the unit has ended that its KillMode ends. A unit that does not run is no error. */
  stop(unit: Unit): Promise<void>;
  restart(unit: Unit): Promise<void>;
  /** The unit starts at each boot, or at each login of its user. */
  enable(unit: Unit): Promise<void>;
  disable(unit: Unit): Promise<void>;
  isActive(unit: Unit): Promise<boolean>;
  /** Has the manager read the units' files again. */
  reload(): Promise<void>;
  /** The last line that the unit has logged, or its state; for a message about its failure. */
  why(unit: Unit): Promise<string>;
}

export class ServiceFailed extends Error {
  override readonly name = "ServiceFailed";
}

/** The stop of a gateway may take its TimeoutStopSec, that of an operator 60 s. */
const systemctlTimeoutMs = 180_000;

/** The commands that the service manager would run, in the order in which a person starts them. */
const commands: Readonly<Record<Unit, string>> = {
  "berth-operator": "berth operator",
  "berth-gateway": "berth serve",
  "berth-gateway-standby": "berth serve --standby",
};

export interface ServicesOptions {
  /** Units of the system; otherwise those of this process's user. */
  readonly isSystem: boolean;
  readonly env: NodeJS.ProcessEnv;
  /** Where no manager runs, gets the commands for a person to run, one line each. */
  readonly write: (text: string) => void;
}

/** The service manager of this machine or user; the implementation without one where there is none. */
export function openServices({ isSystem, env, write }: ServicesOptions): Services {
  // sd_booted(3): the directory is there where systemd is the machine's init.
  if (isSystem) return existsSync("/run/systemd/system") ? systemd("system", env) : noServices(write);
  const runtimeDir = env["XDG_RUNTIME_DIR"] || `/run/user/${process.getuid?.() ?? 0}`;
  if (!existsSync(join(runtimeDir, "systemd/private"))) return noServices(write);
  return systemd("user", { ...env, XDG_RUNTIME_DIR: runtimeDir });
}

function systemd(kind: "system" | "user", env: NodeJS.ProcessEnv): Services {
  const whose = kind === "user" ? ["--user"] : [];
  const options = { env: { ...env, LC_ALL: "C", SYSTEMD_COLORS: "0" } };
  const run = async (program: string, ...args: readonly string[]): Promise<string> =>
    await programOutput(program, [...whose, ...args], { ...options, signal: AbortSignal.timeout(systemctlTimeoutMs) });
  const file = (unit: Unit): string => `${unit}.service`;
  const why = async (unit: Unit): Promise<string> => {
    const lines = await run("journalctl", "-u", file(unit), "-n", "1", "-o", "cat", "--no-pager").catch(() => "");
    const state = await run("systemctl", "show", "-p", "ActiveState,Result", file(unit)).catch(() => "");
    return lines.trim() || state.trim().replaceAll("\n", " ");
  };
  const act = async (verb: "start" | "stop" | "restart" | "enable" | "disable", unit: Unit): Promise<void> => {
    try {
      await run("systemctl", verb, file(unit));
    } catch (error) {
      // systemctl.1: 5 is the code for a unit that is not there.
      if (verb === "stop" && error instanceof ProgramFailed && error.exitCode === 5) return;
      throw new ServiceFailed(`\`systemctl ${[...whose, verb, unit].join(" ")}\` failed: ${await reason(error, unit)}`);
    }
  };
  /** systemctl itself only says that a job failed, and which commands a person may run. */
  const reason = async (error: unknown, unit: Unit): Promise<string> => {
    if (!(error instanceof ProgramFailed)) return errorMessage(error);
    const said = error.said.split("\n")[0] ?? "";
    return said === "" || said.startsWith("Job for ") ? await why(unit) : said;
  };
  return {
    kind,
    start: async (unit) => await act("start", unit),
    stop: async (unit) => await act("stop", unit),
    restart: async (unit) => await act("restart", unit),
    enable: async (unit) => await act("enable", unit),
    disable: async (unit) => await act("disable", unit),
    isActive: async (unit) =>
      await run("systemctl", "is-active", "--quiet", file(unit)).then(
        () => true,
        () => false,
      ),
    async reload() {
      await run("systemctl", "daemon-reload").catch((error: unknown) => {
        throw new ServiceFailed(`\`systemctl daemon-reload\` failed: ${errorMessage(error)}`);
      });
    },
    why,
  };
}

/** No manager runs: says what a person has to start or stop. */
function noServices(write: (text: string) => void): Services {
  const say = async (what: string, unit: Unit): Promise<void> =>
    write(`no service manager runs here: ${what} \`${commands[unit]}\` yourself\n`);
  return {
    kind: "none",
    start: async (unit) => await say("run", unit),
    stop: async (unit) => await say("stop", unit),
    restart: async (unit) => await say("restart", unit),
    enable: async () => undefined,
    disable: async () => undefined,
    isActive: async () => false,
    reload: async () => undefined,
    why: async () => "no service manager runs here",
  };
}
