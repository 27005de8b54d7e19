import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { authModeSchema } from "../../api/token.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText } from "../../lib/read-text.ts";
import { privateDirectory } from "../state/state-owner.ts";

/**
 * Confirmations of tokens. A token that was created while everybody could reach the API proves nothing: its own file
 * does not grant access. A confirmation is a file `<state>/auth/confirmed/<id>`, so that records keep the form that
 * every version reads, and a copy of the records without the confirmations grants no access.
 */
export class TokenConfirmations {
  readonly #stateDir: string;
  readonly #path: string;

  constructor(stateDir: string) {
    this.#stateDir = stateDir;
    this.#path = join(stateDir, "auth", "confirmed");
  }

  /** Synchronous: called for a token that this process does not know yet. */
  has(id: string): boolean {
    return existsSync(join(this.#path, id));
  }

  /** Resolves once the confirmation would survive a power cut. */
  async add(id: string): Promise<void> {
    await privateDirectory(this.#stateDir, "confirmed");
    const file = join(this.#path, id);
    await writeFileAtomic(file, `${new Date().toISOString()}\n`, { fsync: true, mode: 0o600 });
  }

  async remove(id: string): Promise<void> {
    await rm(join(this.#path, id), { force: true });
  }
}

/**
 * Whether the last gateway of this state directory required credentials; undefined: no gateway has recorded it yet. False
 * for a record that cannot be read: a token then counts once a person confirms it.
 */
export async function lastAuthMode(stateDir: string): Promise<boolean | undefined> {
  const text = await readText(modeFile(stateDir)).catch(() => "");
  return text === undefined ? undefined : (authModeSchema.safeParse(parseJson(text)).data?.is_enabled ?? false);
}

/** Records whether a gateway starts with authentication on or off, for commands that create tokens later. */
export async function noteAuthMode(stateDir: string, isEnabled: boolean): Promise<void> {
  if ((await lastAuthMode(stateDir)) === isEnabled) return;
  await privateDirectory(stateDir);
  const file = modeFile(stateDir);
  await writeFileAtomic(file, JSON.stringify({ schema: 1, is_enabled: isEnabled }), { fsync: true, mode: 0o600 });
}

function modeFile(stateDir: string): string {
  return join(stateDir, "auth", "mode.json");
}
