import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** The clone's directory. */
export const root = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** Runs a program to its end; what it prints on standard output is left out. Rejects where it fails. */
export async function ran(
  program: string,
  args: readonly string[],
  { cwd = root, env = {} }: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {},
): Promise<void> {
  const child = spawn(program, args, {
    cwd,
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit"],
  });
  const [code]: readonly unknown[] = await once(child, "close");
  if (code !== 0) throw new Error(`${program} ended with ${String(code)}`);
}
