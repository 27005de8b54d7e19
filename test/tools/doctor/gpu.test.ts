import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { HardwareFacts } from "../../../src/api/hardware.ts";
import { gpu } from "../../hardware/parts.ts";
import { doctorSite, facts, type DoctorSite } from "./site.ts";

const withGpu: HardwareFacts = {
  ...facts,
  gpus: [gpu({ id: "0000:00:06.0", vendor: "nvidia", backends: ["cuda"], evidence: [] })],
};
const server = (devices: string): string => `#!/bin/sh
case $1 in --version) echo version: 1;; --list-devices) echo Available devices:; echo "${devices}";; esac
`;

async function told(site: DoctorSite, program: string, on: HardwareFacts, slot?: string): Promise<string> {
  const path = await site.put("bin/llama-server", program);
  if (slot !== undefined) await site.put("config/slots/chat.toml", slot);
  const text = await site.examine({ SVC_LLAMA_SERVER: path }, { probe: async () => on });
  const lines = text.split("\n");
  const at = lines.findIndex((line) => /^\w+ +gpu\b/.test(line));
  return at < 0
    ? ""
    : lines
        .slice(at, at + 2)
        .join("\n")
        .replaceAll(/ +/g, " ");
}

const cuda = 'backend = "cuda"\n[model]\ndefault = "tiny"\n';

describe("berth doctor asks llama-server for its devices", () => {
  it("and passes where it has a GPU", async () => {
    await using site = await doctorSite();
    const devices = "  CUDA0: NVIDIA H100 80GB HBM3 (81079 MiB, 80552 MiB free)";
    assert.match(
      await told(site, server(devices), withGpu, cuda),
      /^ok gpu: llama-server computes on CUDA0 \(NVIDIA H100 80GB HBM3\)/,
    );
  });
  it("and warns of a program without a GPU, before a slot that wants a GPU is started on the processor", async () => {
    await using site = await doctorSite();
    assert.match(
      await told(site, server("  (none)"), facts, cuda),
      /^warn gpu: DIR\/bin\/llama-server --list-devices names no GPU, which chat would compute on\n.*LD_LIBRARY_PATH/,
    );
  });
  it("warns where there is a GPU that nothing would use", async () => {
    await using site = await doctorSite();
    assert.match(
      await told(site, server("  (none)"), withGpu),
      /^warn gpu: .* and there is one: slots with backend auto/,
    );
  });
  it("reports a program that lists no devices", async () => {
    await using site = await doctorSite();
    assert.match(await told(site, "#!/bin/sh\necho version: 1\n", withGpu), /^warn gpu: .* does not list its devices/);
  });
  it("but not where no slot wants a GPU and there is none", async () => {
    await using site = await doctorSite();
    assert.equal(await told(site, server("  (none)"), facts), "");
  });
});
