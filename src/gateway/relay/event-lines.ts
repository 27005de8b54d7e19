const dataMark = Buffer.from("data: ");

/** The number of events whose data begin in these whole lines. */
export function eventsIn(lines: Buffer): number {
  let count = 0;
  for (let at = lines.indexOf(dataMark); at >= 0; at = lines.indexOf(dataMark, at + dataMark.length))
    if (at === 0 || lines[at - 1] === 0x0a) count += 1;
  return count;
}

/** Whether `lines`, which are whole, end with a blank line. */
export function endsWithBlankLine(lines: Buffer): boolean {
  const end = lines.length - 2;
  const before = lines[end] === 0x0d ? end - 1 : end;
  return before < 0 || lines[before] === 0x0a;
}
