import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ReleaseTarget } from "../../src/api/release.ts";
import { normalise } from "./archive.ts";
import { ran, root } from "./ran.ts";

/** Debian's names of the processors. */
const architectures: Readonly<Record<ReleaseTarget, string>> = { "linux-x64": "amd64", "linux-arm64": "arm64" };

/** The directory of the tree in the Debian package. It is no release itself: `postinst` makes one of it (docs/releasing.md). */
const place = "usr/lib/berth/package";

/** A Debian package of a release's tree. `staged`: an empty directory for its files. */
export async function debianPackage(
  file: string,
  {
    tree,
    staged,
    version,
    target,
    unpackedBytes,
    seconds,
  }: {
    readonly tree: string;
    readonly staged: string;
    readonly version: string;
    readonly target: ReleaseTarget;
    readonly unpackedBytes: number;
    readonly seconds: number;
  },
): Promise<void> {
  const control = join(staged, "DEBIAN");
  await mkdir(control, { recursive: true });
  await mkdir(join(staged, "usr/lib/berth"), { recursive: true });
  await ran("cp", ["-al", tree, join(staged, place)]);
  await writeFile(
    join(control, "control"),
    [
      "Package: berth",
      // A tilde, by which a pre-release is older than its release; Debian has another use for further hyphens.
      `Version: ${version.replace("-", "~").replaceAll("-", ".")}`,
      `Architecture: ${architectures[target]}`,
      "Maintainer: Berth",
      `Installed-Size: ${Math.ceil(unpackedBytes / 1024)}`,
      // The libraries that llama.cpp was built with, and passwd for the command `useradd`.
      "Depends: libc6 (>= 2.34), libgcc-s1, libstdc++6 (>= 12), passwd",
      "Recommends: systemd",
      "Suggests: caddy",
      "Section: net",
      "Priority: optional",
      "Description: keeps local AI models running as declared",
      " Berth starts llama.cpp and other engines for the models that a machine is to",
      " have, and serves them through one OpenAI-style API. The package brings its own",
      " Node.js and a llama.cpp for the CPU.",
      "",
    ].join("\n"),
  );
  for (const script of ["postinst", "prerm"]) {
    const text = await readFile(join(root, "hack/release/debian", script), "utf8");
    await writeFile(join(control, script), text.replaceAll("@VERSION@", version), { mode: 0o755 });
  }
  await normalise(staged, seconds);
  const env = { SOURCE_DATE_EPOCH: String(seconds) };
  await ran("dpkg-deb", ["--root-owner-group", "-Zzstd", "--build", staged, file], { env });
}
