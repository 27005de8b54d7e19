import { join } from "node:path";
import { stateFormat } from "../../api/release.ts";
import { writtenFormatSchema, type WrittenFormat } from "../../api/state-format.ts";
import { writeFileAtomic } from "../../lib/atomic-file.ts";
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

/** `format.json` is there and does not read: what may use the state is not known. */
export class StateFormatUnreadable extends Error {
  override readonly name = "StateFormatUnreadable";

  constructor(path: string) {
    super(
      `${path} does not read as the format of the state: put it back from a backup, or write {"format":NUMBER,"version":"VERSION"} into it, with the newest version that has run here; this version has ${stateFormat}`,
    );
  }
}

/**
 * The format of a state directory; undefined where no operator has written it yet: it is then the first one. Throws
 * StateFormatUnreadable, and the system's error.
 */
export async function readFormat(stateDir: string): Promise<WrittenFormat | undefined> {
  const path = pathOf(stateDir);
  const text = await readText(path);
  if (text === undefined) return undefined;
  const { data } = writtenFormatSchema.safeParse(parseJson(text));
  if (data === undefined) throw new StateFormatUnreadable(path);
  return data;
}

/**
 * Throws StateTooNew where a later version has written the state in a format that this version does not read, and
 * StateFormatUnreadable.
 */
export async function refuseNewerFormat(stateDir: string): Promise<void> {
  const written = await readFormat(stateDir);
  if (written !== undefined && written.format > stateFormat) throw new StateTooNew(stateDir, written);
}

/**
 * Writes the format down, for earlier versions, so that it survives a power cut; nothing where it is there already. Rejects
 * with the system's error.
 */
export async function writeFormat(stateDir: string, version: string): Promise<void> {
  const written = await readFormat(stateDir);
  if (written?.format === stateFormat && written.version === version) return;
  const text = JSON.stringify({ format: stateFormat, version } satisfies WrittenFormat);
  await writeFileAtomic(pathOf(stateDir), text, { fsync: true });
}

function pathOf(stateDir: string): string {
  return join(stateDir, "format.json");
}
