import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { ownVersion, writeProgram, writeProgramPackages } from "../release/program.ts";
import { Stage } from "./stage.ts";

/** The user of both images: nobody's, and a number, since clusters refuse names. */
export const imageUser = "65532:65532";

/**
 * Writes an image of the operator, the gateway and the command line, from this clone's own files: Node, what it compiles,
 * packages without those of development. Nothing is fetched. Resolves with the image's name.
 */
export async function berthArchive(file: string, version?: string): Promise<string> {
  const own = version ?? (await ownVersion());
  const name = `localhost/berth:${own}`;
  await using stage = Stage.open();
  await stage.addProgram(process.execPath, "/usr/bin/node");
  const app = join(stage.root, "app");
  await writeProgram(app, own);
  await writeProgramPackages(app);
  const names = await readdir(join(app, "node_modules"), { recursive: true });
  for (const addon of names.filter((each) => each.endsWith(".node")))
    await stage.addLibrariesOf(join(app, "node_modules", addon));
  await stage.addScript(
    "/usr/bin/berth",
    '#!/usr/bin/node --disable-warning=ExperimentalWarning\nimport("/app/dist/main/berth.js");\n',
  );
  await stage.archive(file, {
    name,
    entrypoint: ["/usr/bin/node", "--disable-warning=ExperimentalWarning", "/app/dist/main/berth.js"],
    workingDir: "/app",
    user: imageUser,
    env: ["HOME=/tmp", "NODE_ENV=production"],
  });
  return name;
}
