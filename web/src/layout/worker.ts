/** Arranges networks in a thread of its own: a thousand switches take longer than a frame may. */
import { layout, type LayoutInput, type LayoutName } from ".";

onmessage = ({ data: [network, name] }: MessageEvent<[LayoutInput, LayoutName]>) => postMessage(layout(network, name));
