/** A line of llama.cpp's log: seconds since the start in groups, the level, the message. */
const levelled = /^\d+(?:\.\d+){3} ([A-Z]) +(.*)$/;
/** A line of an abort's stack trace: it belongs to the error before it. */
const stackFrame = /\[0x[0-9a-f]+\]$|^#\d+ +0x/;
/** Words of errors, for a log without levels. */
const errorWords =
  /\b(?:[a-z_]*error|exception|fail(?:ed|ure)?|fatal|panic(?:ked)?|assert\w*|unable|cannot|could ?n[o']t|exiting|abort(?:ed)?|out of memory|bad_alloc)\b|^what\(\):/i;
/** The number of lines of another level that may stand between the first error of one failure and the last. */
const between = 3;

/** The part of a line that is read: an engine may write lines of any length. */
const mostRead = 2000;

/** Messages about a refused allocation: of CUDA, ROCm, Vulkan, ggml, C++, the system, Node. */
const refusals = [
  /\bout of memory\b/i,
  /OutOfMemory|OutOfDeviceMemory|OutOfHostMemory/,
  /failed to allocate .*\bbuffer\b/i,
  /unable to allocate .*\bbuffer\b/i,
  /\bstd::bad_alloc\b/,
  /\bcannot allocate memory\b/i,
  /too large for the available (?:V?RAM|memory)/i,
] as const;

/** Whether an engine's output says that memory ran out, the machine's or a GPU's. */
export function isOutOfMemory(text: string): boolean {
  const beginning = text.slice(0, mostRead);
  return refusals.some((refusal) => refusal.test(beginning));
}

/**
 * The line with the cause among an engine's last lines. llama.cpp logs the cause first and then every function that
 * failed: its first error of the last failure, or the one about memory. Without `--log-prefix` its lines have no level: then
 * only the error about memory is told from the others. Of a Node program that threw, the error, which
 * stands before the stack and the version. Else the last line; "" where that tells of no error, and `isKilled`: a killed
 * program has logged nothing about it, and nor has perhaps one whose end nobody saw. Without colours and other control
 * characters.
 */
export function causeLine(lines: readonly string[], isKilled = false): string {
  const said = lines.map(plain).filter((line) => line !== "");
  const failure = lastFailure(said);
  if (failure !== undefined) return failure;
  const last = said.at(-1) ?? "";
  const isOfNode = /^Node\.js v\d/.test(last);
  const thrown = isOfNode ? said.findLast((line) => /^(Uncaught )?[A-Za-z]*Error\b.*:/.test(line)) : undefined;
  const cause = thrown ?? last;
  return isKilled && (levelled.test(cause) || !errorWords.test(cause)) ? "" : cause;
}

/** The line goes into conditions and terminals. */
function plain(line: string): string {
  // oxlint-disable-next-line no-control-regex -- removing control characters is the purpose
  return line.replaceAll(/\u001B\[[0-9;?]*[A-Za-z]|[\u0000-\u001F\u007F-\u009F]/g, "").trim();
}

function lastFailure(lines: readonly string[]): string | undefined {
  const errors: string[] = [];
  const hasLevels = lines.some((line) => levelled.test(line));
  let others = 0;
  for (const line of lines.toReversed()) {
    const [, level, text = ""] = hasLevels ? (levelled.exec(line) ?? []) : [line, guessedLevel(line), line];
    if (level === "E") {
      errors.unshift(text);
      others = 0;
    } else if (level !== undefined && ++others > between) break;
  }
  return errors.find(isOutOfMemory) ?? (hasLevels ? errors[0] : undefined);
}

function guessedLevel(line: string): string | undefined {
  if (isOutOfMemory(line) || errorWords.test(line)) return "E";
  return stackFrame.test(line) ? undefined : "I";
}
