/** A problem in a file. Line and column count from 1. */
interface Found {
  readonly file: string;
  readonly line?: number | undefined;
  readonly column?: number | undefined;
  readonly path?: readonly (string | number)[] | undefined;
  readonly message: string;
}

/** `file:line:column: path: message`, with the parts that are known: a format that editors can follow. */
export function diagnosticLine({ file, line, column, path = [], message }: Found): string {
  const place = [file, line, column].filter((part) => part !== undefined).join(":");
  return [place, ...(path.length === 0 ? [] : [path.join(".")]), message].join(": ");
}

/** All problems, one per line. */
export function describeDiagnostics(all: readonly Found[]): string {
  return all.map(diagnosticLine).join("\n");
}
