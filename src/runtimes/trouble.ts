/** A line of llama.cpp's log: seconds since the start in groups, the level, what it says. */
const levelled = /^\d+(?:\.\d+){3} ([A-Z]) +(.*)$/;
/** Lines of another level that may stand between the first error of one failure and the last. */
const between = 3;

/** Of a line: an engine may write one of any length. */
const mostRead = 2000;

/** What programs say when they are refused memory, by what refused it: CUDA, ROCm, Vulkan, ggml, C++, the system, Node. */
const refusals = [
  /\bout of memory\b/i,
  /OutOfMemory|OutOfDeviceMemory|OutOfHostMemory/,
  /failed to allocate .*\bbuffer\b/i,
  /unable to allocate .*\bbuffer\b/i,
  /\bstd::bad_alloc\b/,
  /\bcannot allocate memory\b/i,
  /too large for the available (?:V?RAM|memory)/i,
] as const;

/** Whether an engine's words say that memory ran out, the machine's or a GPU's. */
export function tellsOfMemory(text: string): boolean {
  const beginning = text.slice(0, mostRead);
  return refusals.some((refusal) => refusal.test(beginning));
}

/**
 * Of an engine's last lines, that which tells why it ended. llama.cpp names the cause first and then every function that
 * could not go on: its first error of the last failure, or that which tells of memory. Of a Node program that threw,
 * what it threw, which stands before the stack and the version. Else the last line; "" where that is llama.cpp's and of
 * no error, and `isKilled`: a program that was killed has said nothing about it.
 */
export function tellingLine(lines: readonly string[], isKilled = false): string {
  const said = lines.filter((line) => line !== "");
  const failure = lastFailure(said);
  if (failure !== undefined) return failure;
  const last = said.at(-1) ?? "";
  if (isKilled && levelled.test(last)) return "";
  if (!/^Node\.js v\d/.test(last)) return last;
  return said.findLast((line) => /^(Uncaught )?[A-Za-z]*Error\b.*:/.test(line)) ?? last;
}

function lastFailure(lines: readonly string[]): string | undefined {
  const errors: string[] = [];
  let others = 0;
  for (const line of lines.toReversed()) {
    const [, level, text = ""] = levelled.exec(line) ?? [];
    if (level === "E") {
      errors.unshift(text);
      others = 0;
    } else if (level !== undefined && ++others > between) break;
  }
  return errors.find(tellsOfMemory) ?? errors[0];
}
