/** Lines that a file of code may have: one that needs more has two jobs. */
export const lineLimit = 300;

/** Code beside all folders, and what editors and people leave about. */
const stray = /^[^/]+\.([cm]?[jt]s|py|sh|log|txt)$|\.(bak|orig|rej|swp)$|~$|\.tmp(\.|$)/;

/** Traces of the machine or the people a file was written by. Spelt in pieces, so that this file is none. */
const traces: readonly (readonly [what: string, pattern: RegExp])[] = [
  ["a path of the machine it was written on", new RegExp(["", "work", "(main|shared|\\.)"].join("/"))],
  ["a path of the machine it was written on", new RegExp(["\\.lib", "rary/"].join(""))],
  ["a home directory", /\/(home|Users)\/(?!user\b|you\b|berth\b|\$|<)[a-z]/],
  ["somebody's temporary directory", new RegExp(["", "tmp", "bash_jobs"].join("/"))],
];

/** The problems of one file of the repository, by its path and text. */
export function lintFile(path: string, text: string): string[] {
  const problems: string[] = [];
  if (stray.test(path)) problems.push(`${path}: a scratch file`);
  const lines = text.split("\n");
  const isCode = /^(src|hack|engines\/src)\/.*\.ts$/.test(path);
  const length = lines.length - 1;
  if (isCode && length > lineLimit) problems.push(`${path}: ${length} lines, at most ${lineLimit}`);
  for (const [index, line] of lines.entries()) {
    for (const [what, pattern] of traces) {
      if (pattern.test(line)) problems.push(`${path}:${index + 1}: names ${what}`);
    }
    if (path.endsWith("package-lock.json") && /"resolved": "https?:/.test(line)) {
      problems.push(`${path}:${index + 1}: names the registry it was installed from`);
    }
    if (path.endsWith(".test.ts") && /\b(it|test|describe|suite)\.(skip|only|todo)\(/.test(line)) {
      problems.push(`${path}:${index + 1}: a test is left out, or the only one`);
    }
  }
  return problems;
}
