import { pino, type Logger } from "pino";
import { writeUnheld } from "./log-hold.ts";
import { LogOutput } from "./log-output.ts";
import { goOnWithoutReaders } from "./lost-output.ts";
import { parseJson } from "../lib/json.ts";
import { isRecord } from "../lib/record.ts";

const names: Readonly<Record<number, string>> = {
  10: "trace",
  20: "debug",
  30: "info",
  40: "warn",
  50: "error",
  60: "fatal",
};

/** How much may wait for a reader that has stopped reading. What comes then is lost, and counted. */
const waitingBytes = 4 * 1024 * 1024;

/**
 * JSON lines, or one readable line each where a person looks on: on a terminal, or with BERTH_LOG=text.
 * Secrets and prompts are never given to it. Nobody has to read it: a terminal or pipe that goes away ends nothing,
 * and one that is full, such as a terminal that was stopped with Ctrl-S, holds up no request and no engine.
 */
export function openLog(options: { level: string; component: string; env: NodeJS.ProcessEnv }): Logger {
  const asText = options.env["BERTH_LOG"] === "text" || (options.env["BERTH_LOG"] !== "json" && process.stdout.isTTY);
  const base = { level: options.level, base: { component: options.component } };
  goOnWithoutReaders();
  const output = new LogOutput({
    fd: 1,
    limitBytes: waitingBytes,
    onLost: (lines) => log.warn(`${lines} lines of this log are lost: nobody read it for a while`),
  });
  const log: Logger = asText
    ? pino(base, { write: (line: string) => writeUnheld(() => output.write(readable(line))) })
    : pino(base, output);
  return log;
}

/** `12:00:01 info  operator  primary: starting: …`; a line that is not pino's stays as it is. */
export function readable(line: string): string {
  const entry = parseJson(line);
  if (!isRecord(entry)) return line;
  const { time, level, component, msg, err } = entry;
  const clock = new Date(typeof time === "number" ? time : Date.now()).toTimeString().slice(0, 8);
  const name = typeof level === "number" ? (names[level] ?? String(level)) : "info";
  const cause =
    typeof err === "object" && err !== null && "message" in err && typeof err.message === "string"
      ? ` (${err.message})`
      : "";
  return `${clock} ${name.padEnd(5)} ${String(component).padEnd(8)} ${typeof msg === "string" ? msg : ""}${cause}\n`;
}
