import { conditionSchema, abnormalConditions, type Condition } from "../api/conditions.ts";
import type { Health } from "../api/management/health-view.ts";
import { CommandError, type Client } from "./client.ts";
import { cell } from "./output.ts";
import type { Received } from "./received.ts";

type Count = Health["checks"]["conditions"]["counts"][number];
/** A record with conditions; the name of a model is its `id`. */
interface Row {
  readonly name?: string | null | undefined;
  readonly id?: string | null | undefined;
  readonly conditions?: readonly Received<Condition>[] | null | undefined;
}

/** The conditions of a record that this version can read; an older service sends none. */
function conditionsIn({ conditions }: Row): readonly Condition[] {
  return (conditions ?? []).flatMap((each) => conditionSchema.safeParse(each).data ?? []);
}

/** A line for each condition of a record, for a person; none without conditions. */
export function conditionLines(row: Row): string[] {
  const lines = conditionsIn(row).map(
    ({ type, status, reason, message }) =>
      `  ${cell(type).padEnd(14)}${cell(status).padEnd(9)}${cell(reason).padEnd(22)}${cell(message)}`,
  );
  return lines.length === 0 ? [] : ["conditions:", ...lines];
}

const kinds = [
  { kind: "Slot", route: "GET /api/slots", show: "berth slot show" },
  { kind: "Model", route: "GET /api/models", show: "berth model show" },
  { kind: "Upstream", route: "GET /api/upstreams", show: "berth upstream show" },
  { kind: "SlotGroup", route: "GET /api/groups", show: "berth group show" },
] as const;

/**
 * The resources with problems, for `berth status`: the counts of health in one line, then a line each. A kind that the
 * token may not list is only counted.
 */
export async function troubleLines(
  client: Client,
  counted: readonly Received<Count>[],
  slots: readonly Row[],
): Promise<readonly string[]> {
  const lines = await Promise.all(
    kinds.map(async ({ kind, route, show }) => {
      const ofKind = counted.filter((each) => each.kind === kind);
      if (ofKind.length === 0) return [];
      const rows = kind === "Slot" ? slots : await listed(client, route);
      if (rows === undefined)
        return [`    ${ofKind.map(countOf).join(", ")}: an admin token sees more, by \`${show} NAME\``];
      return rows.flatMap((row) =>
        abnormalConditions(conditionsIn(row)).map(({ type, reason, message }) => {
          const [first = "", ...more] = message.split("\n");
          const rest = more.length === 0 ? "" : ` (more by \`${show} ${cell(row.name ?? row.id)}\`)`;
          return `    ${kind} ${cell(row.name ?? row.id)}: ${typeAndReason(type, reason)}: ${cell(first)}${rest}`;
        }),
      );
    }),
  );
  return [`  conditions: degraded ${counted.map(countOf).join(", ")}`, ...lines.flat()];
}

/** `2 Slot Stalled InvalidSpec`. */
function countOf({ kind, type, reason, count }: Received<Count>): string {
  return `${cell(count)} ${cell(kind)} ${typeAndReason(type, reason)}`;
}

/** `Stalled InvalidSpec`; once where both are the same word, as of `ModelUnknown`. */
function typeAndReason(type: unknown, reason: unknown): string {
  return type === reason ? cell(type) : `${cell(type)} ${cell(reason)}`;
}

async function listed(client: Client, route: (typeof kinds)[number]["route"]): Promise<readonly Row[] | undefined> {
  try {
    return await client.list(route);
  } catch (error) {
    if (error instanceof CommandError) return undefined;
    throw error;
  }
}
