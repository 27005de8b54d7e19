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

/** The limit of buffered bytes for a reader that has stopped reading. Further lines are lost, and counted. */
const waitingBytes = 4 * 1024 * 1024;

export interface ServiceLog {
  readonly log: Logger;
  /** Its lines, of which there may be thousands a second, are written together: a tenth of a second late at most. */
  readonly accessLog: Logger;
}

/** The log of a process: `openServiceLog` without its other entry. */
export function openLog(options: { level: string; component: string; env: NodeJS.ProcessEnv }): Logger {
  return openServiceLog(options).log;
}

/**
 * JSON lines, or one readable line each on a terminal or with BERTH_LOG=text. Callers never log secrets or prompts. The
 * process does not depend on a reader: a terminal or pipe that goes away ends nothing, and a full one, such as a
 * terminal stopped with Ctrl-S, delays no request and no engine.
 */
export function openServiceLog(options: { level: string; component: string; env: NodeJS.ProcessEnv }): ServiceLog {
  const asText = options.env["BERTH_LOG"] === "text" || (options.env["BERTH_LOG"] !== "json" && process.stdout.isTTY);
  const base = { level: options.level, base: { component: options.component } };
  goOnWithoutReaders();
  const output = new LogOutput({
    fd: 1,
    limitBytes: waitingBytes,
    onLost: (lines) =>
      log.warn(`${lines} lines of this log are lost: its output was not read for a while, or its disk was full`),
  });
  const write = (line: string, mayWait: boolean): void => {
    if (asText) writeUnheld(() => output.write(readable(line), mayWait));
    else output.write(line, mayWait);
  };
  const log: Logger = pino(base, { write: (line) => write(line, false) });
  return { log, accessLog: pino(base, { write: (line) => write(line, true) }) };
}

/**
 * `12:00:01 info  operator  primary: starting: …`; a line that is not pino's stays unchanged. What engines and clients have
 * said neither commands the terminal nor looks like a line of its own.
 */
export function readable(line: string): string {
  const entry = parseJson(line);
  if (!isRecord(entry)) return line;
  const { time, level, component, msg, err, requestId } = entry;
  const clock = new Date(typeof time === "number" ? time : Date.now()).toTimeString().slice(0, 8);
  const name = typeof level === "number" ? (names[level] ?? String(level)) : "info";
  const cause =
    typeof err === "object" && err !== null && "message" in err && typeof err.message === "string"
      ? ` (${err.message})`
      : "";
  // A client that reports a failure names its request.
  const of = cause !== "" && typeof requestId === "string" ? ` requestId=${requestId}` : "";
  const text = `${typeof msg === "string" ? msg : ""}${cause}${of}`;
  return `${clock} ${name.padEnd(5)} ${String(component).padEnd(8)} ${shown(text)}\n`;
}

/** Control characters escaped, and further lines indented. */
function shown(text: string): string {
  return (
    text
      // oxlint-disable-next-line no-control-regex -- escaping control characters is the purpose
      .replaceAll(/[\u0000-\u0009\u000B-\u001F\u007F-\u009F]/g, (character) => {
        const code = character.charCodeAt(0).toString(16).padStart(4, "0");
        return `\\u${code}`;
      })
      .replaceAll("\n", "\n  ")
  );
}
