import { spawnSync } from "node:child_process";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { isRecord } from "../../src/lib/record.ts";
import { Stage } from "./stage.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** The user of both images: nobody's, and a number, since clusters refuse names. */
export const imageUser = "65532:65532";

/**
 * Writes an image of the operator, the gateway and the command line, from this clone's own files: Node, what it compiles,
 * packages without those of development. Nothing is fetched. Resolves with the image's name.
 */
export async function berthArchive(file: string): Promise<string> {
  const name = `localhost/berth:${await version()}`;
  await using stage = Stage.open();
  await stage.addProgram(process.execPath, "/usr/bin/node");
  const compile = [
    "node_modules/typescript/bin/tsc",
    "-p",
    "tsconfig.build.json",
    "--outDir",
    join(stage.root, "app/dist"),
  ];
  const { status, stdout } = spawnSync(process.execPath, compile, { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`the sources do not compile:\n${stdout}`);
  for (const part of ["package.json", "manifests", "crds", "web/dist", "LICENSE"])
    await stage.add(join(root, part), `/app/${part}`);
  for (const path of await runtimePackages()) {
    await stage.add(join(root, path), `/app/${path}`);
    const names = await readdir(join(root, path), { recursive: true });
    for (const addon of names.filter((each) => each.endsWith(".node")))
      await stage.addLibrariesOf(join(root, path, addon));
  }
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

async function version(): Promise<string> {
  const manifest: unknown = JSON.parse(await readFile(join(root, "package.json"), "utf8"));
  const { version: own } = isRecord(manifest) ? manifest : {};
  if (typeof own !== "string") throw new Error("package.json has no version");
  return own;
}

/** The paths of installed packages that the lockfile says the program needs; Node itself is beside them already. */
async function runtimePackages(): Promise<readonly string[]> {
  const lock: unknown = JSON.parse(await readFile(join(root, "package-lock.json"), "utf8"));
  const packages = isRecord(lock) && isRecord(lock["packages"]) ? lock["packages"] : {};
  return Object.entries(packages).flatMap(([path, entry]) => {
    const isTop = /^node_modules\/(@[^/]+\/)?[^/]+$/.test(path);
    const isNeeded = isRecord(entry) && entry["dev"] !== true && entry["optional"] !== true;
    return isTop && isNeeded ? [path] : [];
  });
}
