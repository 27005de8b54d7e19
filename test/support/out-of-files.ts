import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** Evaluates a call of an export of `module` in a process that has no file descriptor left: its value as text, or the error's code. */
export async function withoutDescriptors(module: URL, expression: string): Promise<string> {
  const name = expression.slice(0, expression.indexOf("("));
  return await runScarce(`
    const { ${name} } = await import(${JSON.stringify(module.href)});
    const open = exhaust();
    let said;
    try { said = String(${expression}); } catch (error) { said = error.code; }
    giveBack(open);
    console.log(said);`);
}

/**
 * Runs a script in a process that may open few files, and resolves with what it prints. `exhaust()` opens all that are
 * left, for `giveBack`.
 */
export async function runScarce(script: string): Promise<string> {
  const prelude = `
    import { closeSync, openSync } from "node:fs";
    function exhaust() {
      const open = [];
      try { for (;;) open.push(openSync("/dev/null")); } catch { return open; }
    }
    function giveBack(open) { for (const file of open) closeSync(file); }`;
  const node = [process.execPath, "--disable-warning=ExperimentalWarning", "--input-type=module", "--eval"];
  const { stdout } = await promisify(execFile)("sh", [
    "-c",
    'ulimit -n 64; exec "$@"',
    "sh",
    ...node,
    prelude + script,
  ]);
  return stdout.trim();
}
