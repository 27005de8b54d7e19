import { join } from "node:path";
import { stateFormat } from "../../api/release.ts";
import { writtenFormatSchema, type WrittenFormat } from "../../api/state-format.ts";
import { writeJsonNow } from "../../lib/atomic-file.ts";
import { parseJson } from "../../lib/json.ts";
import { readText } from "../../lib/read-text.ts";

/** The state directory has a newer format than this version reads. */
export class StateTooNew extends Error {
  override readonly name = "StateTooNew";
  readonly written: WrittenFormat;

  constructor(stateDir: string, written: WrittenFormat) {
    super(
      `the state directory ${stateDir} has format ${written.format}, by Berth ${written.version}; this version reads format ${stateFormat}: run \`berth update\`, or start version ${written.version}`,
    );
    this.written = written;
  }
}

/**
 * The format of a state directory; undefined where no operator has written it yet, or where `format.json` is not
 * readable: the format is then the first one.
 */
export async function readFormat(stateDir: string): Promise<WrittenFormat | undefined> {
  return writtenFormatSchema.safeParse(parseJson((await readText(pathOf(stateDir))) ?? "")).data;
}

/** Throws StateTooNew where a later version has written the state in a format that this version does not read. */
export async function refuseNewerFormat(stateDir: string): Promise<void> {
  const written = await readFormat(stateDir);
  if (written !== undefined && written.format > stateFormat) throw new StateTooNew(stateDir, written);
}

/** Writes the format down, for earlier versions; nothing where it is there already. Rejects with the system's error. */
export async function writeFormat(stateDir: string, version: string): Promise<void> {
  const written = await readFormat(stateDir);
  if (written?.format === stateFormat && written.version === version) return;
  writeJsonNow(pathOf(stateDir), JSON.stringify({ format: stateFormat, version } satisfies WrittenFormat), 0o644);
}

function pathOf(stateDir: string): string {
  return join(stateDir, "format.json");
}
