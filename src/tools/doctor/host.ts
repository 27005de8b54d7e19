import { freeBytesMin, type HardwareFacts } from "../../api/hardware.ts";
import { fail, ok, roomText, warn, type Finding } from "./finding.ts";

/** The Node version that the sources need (package.json has that of bin/berth). */
const nodeMajor = 24;

export function nodeFinding(version: string): Finding {
  if (Number(version.split(".")[0]) >= nodeMajor) return ok("node", version);
  return fail("node", `${version} runs this, and Berth needs ${nodeMajor}`, "run bin/berth, which finds its own");
}

/** Disk space and devices, as the probe of the hardware reports them. */
export async function hardwareFindings(facts: HardwareFacts): Promise<Finding[]> {
  const { withSuggestions } = await import("../../engines/suggestion.ts");
  const { llama } = withSuggestions(facts).suggested;
  const disks = facts.disks.map(({ use, path, free_bytes: free, total_bytes: total, evidence }): Finding => {
    if (free === null)
      return warn("disk", `room for ${use} is not known: ${evidence[0]?.says ?? path}`, `probe at ${path}`);
    const text = `${use}: ${roomText(free, total)} at ${path}`;
    return free >= freeBytesMin ? ok("disk", text) : warn("disk", text, "make room, or name another place");
  });
  const devices = facts.devices.flatMap(({ path, problem, group, gid }): Finding[] => {
    if (problem === null) return [];
    const next = `add the user that runs Berth to group ${group ?? gid} (usermod -aG), and log in again`;
    return [warn("devices", `${path} ${problem}`, next)];
  });
  const unseen = facts.problems.map(({ source, says }) =>
    warn("devices", `${source} ${says}`, "what is there is not known; `berth probe -o wide` tells more"),
  );
  const count = facts.devices.length;
  const seen = count === 0 ? "none of a GPU or NPU" : facts.devices.map(({ path }) => path).join(", ");
  const backend = `backend auto is ${llama?.backend ?? "cpu"} for llama`;
  return [...disks, ...(devices.length > 0 ? devices : [ok("devices", `${seen}; ${backend}`)]), ...unseen];
}

/** For root, the user that engines run as. Undefined: the user who runs Berth, which is fine. */
export async function engineUserFinding(uid: number | undefined, wanted: string | undefined): Promise<Finding[]> {
  if (uid !== 0) return [];
  if (wanted === undefined)
    return [warn("user", "engines that are processes run as root", "set SVC_ENGINE_USER to a user made for them")];
  const { findUser } = await import("../../runtimes/process/user.ts");
  try {
    const user = await findUser(wanted);
    return user === undefined ? [] : [ok("user", `engines run as ${wanted} (uid ${user.uid}, gid ${user.gid})`)];
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return [fail("user", message, "make it, or set SVC_ENGINE_USER to one that is there")];
  }
}
