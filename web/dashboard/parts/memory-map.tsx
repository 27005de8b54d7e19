import type { JSX } from "preact";
import { useId } from "preact/hooks";
import type { HardwareView, SlotView } from "../../../src/api/management/views.ts";
import { bytes } from "../../shared/format.ts";
import { placesOf, slotColour } from "../colours.ts";
import { deviceMaps, widthsOf, type DeviceMap, type Segment } from "../device-maps.ts";
import { groups, reading } from "../live.ts";
import { slotPath } from "../router.ts";

/** A bar for each device with the slots that hold its memory, and their sizes below. */
export function MemoryMap(props: {
  readonly machine: Partial<HardwareView>;
  readonly slots: readonly SlotView[];
}): JSX.Element {
  const now = reading.value ?? props.machine.now ?? null;
  const maps = deviceMaps(props.machine, props.slots, now, groups.value.values());
  const places = placesOf(props.slots.map(({ name }) => name));
  if (maps.length === 0) return <p class="quiet">The memory of this machine is not known.</p>;
  return (
    <div class="memory-map">
      {maps.map(inShort).map(({ more, ...map }) => (
        <section key={map.id} aria-label={`Memory of ${map.name}`}>
          <p class="row">
            <span>{map.name}</span>
            <span class="quiet number">{spoken(map)}</span>
          </p>
          <DeviceBar map={map} places={places} />
          <ul class="sizes">
            {map.segments.map((segment) => (
              <Size key={`${segment.slot}${segment.group}${segment.kind}`} segment={segment} places={places} />
            ))}
          </ul>
          {more > 0 && <p class="quiet">and {more} slots with less</p>}
        </section>
      ))}
    </div>
  );
}

interface SizeProps {
  readonly segment: Segment;
  readonly places: ReadonlyMap<string, number>;
}

/** A segment in words. Free memory stands above the bar; many small slots have a line below. */
function Size({ segment: { slot, group, kind, bytes: size }, places }: SizeProps): JSX.Element | null {
  if (slot === undefined && kind !== "other" && kind !== "reserved") return null;
  return (
    <li>
      <span class={`swatch ${kind} ${slot === undefined ? "" : slotColour(places.get(slot))}`} />
      {slot !== undefined && <a href={slotPath(slot)}>{slot}</a>}
      {kind === "other" && "Other programs"}
      {kind === "reserved" && (
        <span>
          reserved for group <a href="ui/machine">{group}</a>
        </span>
      )}
      <span class="quiet number">
        {kind === "coming" ? "+ " : ""}
        {bytes(size)}
      </span>
    </li>
  );
}

/** More slots than these of one device are one segment: nobody tells them apart. */
const mostSlots = 12;

/** The slots that hold most of a device, and how many others are one segment. */
function inShort(map: DeviceMap): DeviceMap & { readonly more: number } {
  const ofSlots = map.segments.filter(({ slot }) => slot !== undefined);
  if (ofSlots.length <= mostSlots) return { ...map, more: 0 };
  const rest = new Set(ofSlots.toSorted((one, other) => other.bytes - one.bytes).slice(mostSlots));
  const size = [...rest].reduce((sum, segment) => sum + segment.bytes, 0);
  const isLast = ({ kind }: Segment): boolean => kind === "other" || kind === "free";
  const segments = [
    ...map.segments.filter((segment) => !rest.has(segment) && !isLast(segment)),
    { kind: "held", bytes: size } as const,
    ...map.segments.filter(isLast),
  ];
  return { ...map, segments, more: rest.size };
}

function spoken({ segments, total }: DeviceMap): string {
  const free = segments.filter(({ kind }) => kind === "free");
  return `${bytes(free.reduce((sum, segment) => sum + segment.bytes, 0))} of ${bytes(total)} free`;
}

/** The segments, and a bracket below those of each group. */
function DeviceBar({
  map,
  places,
}: {
  readonly map: DeviceMap;
  readonly places: ReadonlyMap<string, number>;
}): JSX.Element {
  const hatch = useId();
  const widths = widthsOf(map.segments);
  let at = 0;
  const drawn = map.segments.map((segment, nth) => {
    const x = at;
    at += widths[nth] ?? 0;
    return { ...segment, x, width: Math.max(1, at - x - 2) };
  });
  const brackets = Map.groupBy(
    drawn.filter(({ group }) => group !== undefined),
    ({ group }) => group,
  );
  return (
    <>
      <svg class="bar" viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true">
        <defs>
          <pattern id={hatch} width="16" height="24" patternUnits="userSpaceOnUse">
            <path d="M0 0h16v24H0z" class="hatched" />
            <path d="M0 24 16 0" class="hatch" />
          </pattern>
        </defs>
        {drawn.map(({ slot, group, kind, x, width }) => {
          if (kind === "other") return <path key={kind} d={`M${x} 0h${width}v24h-${width}z`} fill={`url(#${hatch})`} />;
          const colour = slot === undefined ? "" : slotColour(places.get(slot));
          return (
            <rect key={`${slot}${group}${kind}`} x={x} y={0} width={width} height={24} class={`${kind} ${colour}`} />
          );
        })}
      </svg>
      {brackets.size > 0 && (
        <svg class="brackets" viewBox="0 0 1000 8" preserveAspectRatio="none" aria-hidden="true">
          {[...brackets].map(([group, own]) => {
            const end = own.at(-1);
            return (
              <path key={group} d={`M${own[0]?.x ?? 0} 2V7H${(end?.x ?? 0) + (end?.width ?? 0)}V2`}>
                <title>{`Group ${group}`}</title>
              </path>
            );
          })}
        </svg>
      )}
    </>
  );
}
