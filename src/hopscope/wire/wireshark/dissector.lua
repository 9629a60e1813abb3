-- Hopscope: Telemetry Reports 0.5, 1.0 and 2.0, INT and IFA in packets, DTA and INT-label for Wireshark and
-- tshark.
-- Written by `hopscope dissector`. The tables are generated from hopscope's own declarations; what follows
-- them reads packets as `hopscope decode` does, and refuses what it refuses, with the same reasons.

--@TABLES@

-- ------------------------------------------------------------------------------------------------ fields

local floor = math.floor

local PROTO = Proto("hopscope", "Telemetry Report")
local PROTO_INT = Proto("hopscope.int", "In-band Network Telemetry")
local PROTO_DTA = Proto("hopscope.dta", "Direct Telemetry Access")
local PROTO_LABEL = Proto("hopscope.label", "INT-label")
local PROTO_LABELS = Proto("hopscope.labels", "INT-label, from a last hop")

local FIELD = {} -- "int.hop.node_id" and where it is in its bytes: the ProtoField
local declared = {}

local CAPITALS = { ds = "DS", dscp = "DSCP", hw = "HW", l2 = "L2", mtu = "MTU", nack = "NACK", ttl = "TTL",
                   tx = "TX" }

local function title_of(name)
  local words = name:gsub("_", " "):gsub("%w+", CAPITALS)
  return words:sub(1, 1):upper() .. words:sub(2)
end

local function declare(key, field)
  FIELD[key] = field
  declared[#declared + 1] = field
end

local HEX = { instructions = true, metadata_bits = true, ds_instruction = true, ds_flags = true,
              ds_metadata_bits = true, ds_metadata_status = true, domain_id = true, original = true }

-- One field of a header that is shown under `prefix`; a field of 1 bit is a truth value.
local function declare_row(prefix, row)
  local first, last = floor(row.at / 8), floor((row.at + row.bits - 1) / 8)
  local size = last - first + 1
  row.first, row.size, row.key = first, size, ("%d/%d"):format(row.at % 8, row.bits)
  local abbreviation = prefix .. "." .. row.name
  local key = abbreviation .. ":" .. row.key
  if FIELD[key] then return end
  local mask = nil
  if row.bits < 8 * size then mask = (2 ^ row.bits - 1) * 2 ^ (8 * size - row.at % 8 - row.bits) end
  local name, full = title_of(row.name), "hopscope." .. abbreviation
  local about = row.unit ~= "" and row.doc ~= "" and (row.unit .. "; " .. row.doc) or row.unit .. row.doc
  if row.bits == 1 then
    declare(key, ProtoField.bool(full, name, 8, nil, mask, about))
    return
  end
  local kind = WIDE[abbreviation] and "uint64" or "uint" .. 8 * size
  declare(key, ProtoField[kind](full, name, HEX[row.name] and base.HEX or base.DEC, row.values, mask, about))
end

for header, prefix in pairs(SHOWN) do
  for _, row in ipairs(H[header]) do declare_row(prefix, row) end
end
declare_row("report", H.DROP_0_5[1]) -- the node id; what follows it are items
declare_row("report", H.SWITCH_LOCAL_0_5[1])
local OWN = { [L.OWN_OF_1_0] = true, [L.OWN_OF_2_0] = true, [L.DROP_OF_0_5] = true, [L.LOCAL_OF_0_5] = true }
for _, dialect in ipairs(DIALECTS) do
  for _, row in ipairs(dialect.md) do declare_row("int", row) end
  for _, row in ipairs(dialect.mx) do declare_row("int", row) end
  for _, row in ipairs(dialect.original) do declare_row("int.shim", row) end
  for kind, alternatives in pairs(dialect.items) do
    for _, items in ipairs(alternatives) do
      for _, number in ipairs(items) do
        local prefix = OWN[kind] and "report.metadata" or "int.hop"
        for _, row in ipairs(ITEMS[number]) do declare_row(prefix, row) end
      end
    end
  end
end

-- Domain-specific metadata whose sizes a dialect knows.
for _, dialect in ipairs(DIALECTS) do
  for _, domain in ipairs(dialect.domains) do
    for _, list in ipairs({ domain.fields, domain.source_only }) do
      for _, one in ipairs(list) do
        one.key = "int.domain." .. one.name:lower():gsub("[^%w_]", "_")
        if one.shown and not FIELD[one.key] then
          declare(one.key, ProtoField.bytes("hopscope." .. one.key, title_of(one.name)))
        end
      end
    end
  end
end

-- Subtrees, and values that are not in one place of the packet.
local NODES = {
  ["report.individual"] = "Report", ["report.metadata"] = "The report's own metadata",
  ["report.tlv"] = "TLV", ["report.packet"] = "Packet of the report", ["int.shim"] = "Shim",
  ["int.header"] = "Header", ["int.hop"] = "Hop", ["int.tail"] = "Tail", ["label.item"] = "Item",
  ["label.route"] = "Source route", ["label.block"] = "Labels of a packet", ["flow"] = "Flow",
}
for name, title in pairs(NODES) do declare(name, ProtoField.none("hopscope." .. name, title)) end
local DERIVED = {
  ["report.layout"] = { "string", "Layout" }, ["report.kind"] = { "string", "Kind" },
  ["report.index"] = { "uint16", "Index in the datagram" },
  ["int.layout"] = { "string", "Layout" }, ["int.mode"] = { "string", "Mode" },
  ["int.carrier"] = { "string", "Carrier" }, ["int.hop_count"] = { "uint16", "Hops" },
  ["int.hop.index"] = { "uint16", "Index in the path" },
  ["int.path"] = { "string", "Path" }, ["int.hop_size"] = { "uint16", "Bytes of a hop" },
  ["flow.src"] = { "ipv4", "Source" }, ["flow.dst"] = { "ipv4", "Destination" },
  ["flow.src6"] = { "ipv6", "Source" }, ["flow.dst6"] = { "ipv6", "Destination" },
  ["flow.proto"] = { "uint8", "Protocol" }, ["flow.sport"] = { "uint16", "Source port" },
  ["flow.dport"] = { "uint16", "Destination port" }, ["flow.vlan"] = { "uint16", "VLAN" },
  ["flow.tunnel_id"] = { "uint32", "Tunnel id" }, ["flow.layers"] = { "string", "Layers" },
  ["int.meaning"] = { "uint16", "Instructions by the specification" },
  ["dta.form"] = { "uint8", "Bytes of the base header" },
  ["label.labels"] = { "uint8", "Labels" }, ["label.tracked"] = { "bool", "Of a tracked flow" },
  ["error.reason"] = { "string", "Reason" }, ["error.place"] = { "string", "Place" },
  ["error.detail"] = { "string", "Detail" }, ["error.byte"] = { "uint32", "Byte in the frame" },
}
for name, row in pairs(DERIVED) do declare(name, ProtoField[row[1]]("hopscope." .. name, row[2])) end
declare("int.hop.domain_specific", ProtoField.bytes("hopscope.int.hop.domain_specific", "Domain-specific"))
declare("int.domain_specific", ProtoField.bytes("hopscope.int.domain_specific", "Domain-specific, of no hop"))
declare("report.metadata.domain_specific",
        ProtoField.bytes("hopscope.report.metadata.domain_specific", "Domain-specific"))
declare("report.skipped", ProtoField.bytes("hopscope.report.skipped", "Header of this dialect"))
declare("int.shim.numbered", ProtoField.uint32("hopscope.int.sequence", "Sequence number of the flow"))
declare("dta.key_octets", ProtoField.bytes("hopscope.dta.key_octets", "Key"))
declare("dta.data_octets", ProtoField.bytes("hopscope.dta.data_octets", "Data"))
declare("dta.rest", ProtoField.bytes("hopscope.dta.rest", "Bytes behind it"))
PROTO.fields = declared

local EXPERT, experts = {}, {}
for _, label in ipairs(REASONS) do
  EXPERT[label] = ProtoExpert.new("hopscope.damage." .. label, "Refused: " .. label:gsub("_", " "),
                                  expert.group.MALFORMED, expert.severity.ERROR)
  experts[#experts + 1] = EXPERT[label]
end
PROTO.experts = experts

-- ------------------------------------------------------------------------------------------- preferences

local choices = {}
for number, one in ipairs(DIALECTS) do choices[number] = { number, one.name, number } end
PROTO.prefs.dialect = Pref.enum("Dialect", 1, "How reports and INT are read, as in hopscope decode --dialect",
                                choices, false)
PROTO.prefs.report_ports = Pref.range("Report UDP ports", "",
                                      "Ports that reports are sent to; empty: the dialect's", 65535)
PROTO.prefs.int_dscp = Pref.range("INT DSCP values", "",
                                  "DSCP values of packets with INT; empty: the dialect's", 63)
PROTO.prefs.int_ports = Pref.range("INT UDP ports", "",
                                   "UDP destination ports of packets with INT; empty: the dialect's", 65535)
PROTO.prefs.packets = Pref.bool("INT in packets", true, "Look for INT and IFA in packets that are no reports")
PROTO.prefs.dta_port = Pref.uint("DTA UDP port", L.DTA_PORT, "Acknowledgments go to the port 4 above it")
PROTO.prefs.dta_form = Pref.enum("DTA base header", 0, "2 bytes, 3 with sequence number, or Hopscope's own with lengths", {
  { 0, "by length", 0 }, { 2, "2 bytes", 2 }, { 3, "3 bytes", 3 }, { H.DTA_SIZED.size, "sized", H.DTA_SIZED.size },
}, false)
PROTO.prefs.label_protocol = Pref.uint("INT-label IP protocol", L.PROTOCOL_LABEL,
                                       "IP protocol of INT-label as in the paper")
PROTO.prefs.label_max_hop = Pref.uint("INT-label MAX_hop", 5, "Counts above it are of tracked flows")
PROTO.prefs.label_port = Pref.uint("INT-label UDP port", L.LABEL_PORT, "Port to which last hops send labels")

local function numbers(range) -- "1,5-7" as a set
  local set = {}
  for first, last in range:gmatch("(%d+)%-?(%d*)") do
    for number = tonumber(first), tonumber(last) or tonumber(first) do set[number] = true end
  end
  return set
end

local dialect, report_ports, int_dscp, int_ports -- by the preferences

local function rule(at) -- a byte of the dialect's table, as wire/rules.py has it; 0 where there is none
  return at and (dialect.rules[at] or SPEC[at]) or 0
end

local function int_by_dscp(dscp)
  if next(int_dscp) then return int_dscp[dscp] or false end
  return rule(R.INT_DSCP + dscp) ~= 0
end

local function role(port, bit) -- what a UDP destination port says
  if bit == R.ROLE_INT and next(int_ports) then return int_ports[port] or false end
  return floor(rule(R.UDP_ROLE + port) / bit) % 2 == 1
end

-- ------------------------------------------------------------------------------------------------ cursor

-- A position: bytes of `tvb` between `at` and `stop`; `limit` is nearer where a header says that less belongs
-- to it. Reading past `stop` is truncated, reading past `limit` bytes that are there is a bad length.
local function cursor(tvb, at, stop) return { tvb = tvb, at = at, stop = stop, limit = stop } end

local function refuse(reason, place, at, detail, sure) -- sure: it is INT, and not ordinary traffic
  error({ reason = reason, place = place, at = at, detail = detail, sure = sure }, 0)
end

local function need(c, size, place, name)
  if c.at + size > c.stop then
    refuse("truncated", place, c.at,
           ("%s needs %d bytes, %d are left"):format(name, size, math.max(c.stop - c.at, 0)))
  end
  if c.at + size > c.limit then
    refuse("bad_length", place, c.at, ("%s needs %d bytes, the IP length leaves %d"):format(
      name, size, math.max(c.limit - c.at, 0)))
  end
end

local function skip(c, size, place, name)
  need(c, size, place, name)
  local start = c.at
  c.at = start + size
  return start
end

local function values_of(tvb, at, header)
  local values = { at = at }
  for _, row in ipairs(header) do
    if row.bits <= 32 then
      local first = floor(row.at / 8)
      local size = floor((row.at + row.bits - 1) / 8) - first + 1
      values[row.name] = tvb(at + first, size):bitfield(row.at % 8, row.bits)
    end
  end
  return values
end

local function peek(c, header, place)
  need(c, header.size, place, header.title)
  return values_of(c.tvb, c.at, header)
end

local function pull(c, header, place)
  local values = peek(c, header, place)
  c.at = c.at + header.size
  return values
end

local function byte_of(header, name) -- byte of a field in its header
  for _, row in ipairs(header) do
    if row.name == name then return floor(row.at / 8) end
  end
end

local function has_bit(bitmap, bit) return floor(bitmap / 2 ^ (15 - bit)) % 2 == 1 end

-- ------------------------------------------------------------------------------- what is shown of a packet

-- What is read is noted in a reading `w`, and shown when it is known whether it was what it seemed to be.
-- A part is a subtree (or, without a node, a piece of its parent) with headers at places.
local function part(list, node, title, at, size)
  local one = { node = node, title = title, at = at, size = size }
  list[#list + 1] = one
  return one
end

local function noted(list, node, c, header, prefix, place)
  local values = pull(c, header, place)
  local one = part(list, node, header.title, values.at, header.size)
  one[1] = { header, values.at, prefix }
  return values, one
end

local function show_rows(tree, tvb, at, rows, prefix, unavailable)
  for _, row in ipairs(rows) do
    local item = tree:add(FIELD[prefix .. "." .. row.name .. ":" .. row.key], tvb(at + row.first, row.size))
    if unavailable then item:append_text(" (unavailable)") end
  end
end

local function all_ones(tvb, at, size) return tvb(at, size):bytes():tohex() == ("FF"):rep(size) end

local function show_part(tree, tvb, one)
  local sub = tree
  if one.node then
    sub = tree:add(FIELD[one.node], tvb(one.at, one.size))
    sub:set_text(one.title)
  end
  for _, piece in ipairs(one) do
    if type(piece[1]) == "table" then
      show_rows(sub, tvb, piece[2], piece[1], piece[3], piece[4])
    elseif piece[4] then
      sub:add(FIELD[piece[1]], tvb(piece[2], piece[3]), piece[4]):set_generated()
    else
      sub:add(FIELD[piece[1]], tvb(piece[2], piece[3]))
    end
  end
end

-- The values of the items that a bitmap names, from `size` bytes at `at`: a part for them, and the values.
local function note_items(one, c, at, items, bitmap, size, prefix)
  local stop, values = at + size, {}
  local place = at
  for bit, number in ipairs(items) do
    local item = ITEMS[number]
    if has_bit(bitmap, bit - 1) then
      local start = place
      -- INT 2.1 5.7: the checksum complement is the last word, behind domain-specific metadata
      if item.last then start = stop - item.size else place = place + item.size end
      local unavailable = item.have ~= 0 and all_ones(c.tvb, start, item.size)
      one[#one + 1] = { item, start, prefix, unavailable }
      if not unavailable then
        for name, value in pairs(values_of(c.tvb, start, item)) do values[name] = value end
      end
      if item.last then stop = start end
    end
  end
  return values, place, stop
end

-- Domain-specific metadata from `at` to `stop`: by the fields that `bits` names where they fill it, else raw.
local function note_domain(one, at, stop, list, bits, raw)
  if stop <= at then return end
  local size = 0
  for _, known in ipairs(list) do
    if has_bit(bits, known.bit) then size = size + known.size end
  end
  if size ~= stop - at then
    one[#one + 1] = { raw, at, stop - at }
    return
  end
  for _, known in ipairs(list) do
    if has_bit(bits, known.bit) then
      if known.shown then one[#one + 1] = { known.key, at, known.size } end
      at = at + known.size
    end
  end
end

local function domain_of(id) -- (what bits stand for in hops, and from the source alone)
  for _, one in ipairs(dialect.domains) do
    if one.id == id then return one.fields, one.source_only end
  end
  return {}, {}
end

local function items_size(items, bitmap)
  local size = 0
  for bit, number in ipairs(items) do
    if has_bit(bitmap, bit - 1) then size = size + ITEMS[number].size end
  end
  return size
end

-- --------------------------------------------------------------------------------------- Ethernet, IP, ...

local VLAN_TYPES = {}
for _, one in ipairs(L.ETHERTYPES_VLAN) do VLAN_TYPES[one] = true end
local MPLS_TYPES = {}
for _, one in ipairs(L.ETHERTYPE_MPLS) do MPLS_TYPES[one] = true end
local EXTENSIONS = {}
for _, one in ipairs(L.NEXT_EXTENSIONS) do EXTENSIONS[one] = true end

-- What lies around the packet's innermost IP header, and the innermost tunnel's number.
local function note_layer(w, name, tunnel_id)
  if not w.layers[name] then
    w.layers[name] = true
    w.layers[#w.layers + 1] = name
  end
  w.tunnel_id = tunnel_id or w.tunnel_id
end

local function pull_tags(c, ethertype, place, w)
  local tags = 0
  while VLAN_TYPES[ethertype] and tags < L.MAX_TAGS do
    local tag = pull(c, H.VLAN, place)
    ethertype = tag.type
    tags = tags + 1
    if w then w.vlan = tag.vlan end
  end
  if w and tags > 0 then note_layer(w, tags == 1 and "vlan" or "qinq") end
  return ethertype
end

local function pull_ethernet(c, place, w) return pull_tags(c, pull(c, H.ETHERNET, place).type, place, w) end

local function version_of(ethertype)
  return ethertype == L.ETHERTYPE_IPV4 and 4 or ethertype == L.ETHERTYPE_IPV6 and 6 or 0
end

local IPV4_LENGTH, IPV4_PROTOCOL = byte_of(H.IPV4, "total_length"), byte_of(H.IPV4, "protocol")
local IPV4_SOURCE, IPV4_DESTINATION = byte_of(H.IPV4, "source"), byte_of(H.IPV4, "destination")
local IPV6_LENGTH = byte_of(H.IPV6, "payload_length")

local function pull_ipv4(c, place, inner)
  local start, head = c.at, peek(c, H.IPV4, place)
  if head.version ~= 4 then
    refuse("unknown_version", place, start, ("IP version %d where 4 is expected"):format(head.version))
  end
  local size, length = 4 * head.header_words, head.total_length
  if size < H.IPV4.size then
    refuse("bad_length", place, start, ("IPv4 header of %d bytes, at least 20 are needed"):format(size))
  end
  need(c, size, place, "IPv4 with options")
  if length == 0 and inner and rule(R.ANY_IP_LENGTH) ~= 0 then length = c.limit - start end
  if length < size then
    refuse("bad_length", place, start,
           ("IPv4 total length %d is below the header's %d bytes"):format(length, size))
  end
  c.at = start + size
  return { version = 4, at = start, protocol = head.protocol, dscp = head.dscp, length = length,
           more = head.more_fragments == 1, offset = head.fragment_offset, length_at = start + IPV4_LENGTH,
           protocol_at = start + IPV4_PROTOCOL, source = start + IPV4_SOURCE,
           destination = start + IPV4_DESTINATION }
end

local function pull_ipv6(c, place)
  local start, head = c.at, peek(c, H.IPV6, place)
  if head.version ~= 6 then
    refuse("unknown_version", place, start, ("IP version %d where 6 is expected"):format(head.version))
  end
  c.at = start + H.IPV6.size
  local ip = { version = 6, at = start, protocol = head.next_header, dscp = head.dscp, more = false,
               offset = 0, length = head.payload_length + H.IPV6.size, length_at = start + IPV6_LENGTH,
               protocol_at = start + byte_of(H.IPV6, "next_header"),
               source = start + byte_of(H.IPV6, "source"),
               destination = start + byte_of(H.IPV6, "destination") }
  while ip.offset == 0 do -- behind a later fragment's header there are no headers
    if ip.protocol == L.NEXT_FRAGMENT then
      local fragment = pull(c, H.IPV6_FRAGMENT, place)
      ip.protocol, ip.offset, ip.protocol_at = fragment.next_header, fragment.fragment_offset, fragment.at
      ip.more = ip.more or fragment.more_fragments == 1
    elseif EXTENSIONS[ip.protocol] or ip.protocol == L.NEXT_AUTHENTICATION then
      -- two bytes that every extension begins with; the authentication header counts words, minus 2
      local extension = peek(c, H.IPV6_EXTENSION, place)
      local size = 8 * (extension.length + 1)
      if ip.protocol == L.NEXT_AUTHENTICATION then size = 4 * (extension.length + 2) end
      skip(c, size, place, "IPv6 extension")
      ip.protocol, ip.protocol_at = extension.next_header, extension.at
    else
      break
    end
  end
  return ip
end

local function pull_ip(c, version, place, inner)
  local start = c.at
  local ip = version == 4 and pull_ipv4(c, place, inner) or pull_ipv6(c, place)
  c.limit = math.min(c.limit, start + ip.length)
  ip.fragment = ip.more or ip.offset > 0
  return ip
end

-- --------------------------------------------------------------------------------------------------- INT

local MD, DESTINATION, MX = 1, 2, 3
local MODE = { "md", "destination", "mx" }
local IFA = { version = 92, type = 7 } -- as `int_version` and `int_mode` of the decoder
MODE[IFA.type] = "ifa"
local LAYOUT = { [1] = "2015", [4] = "0.4", [5] = "0.5", [10] = "1.0", [20] = "2", [IFA.version] = "ifa" }
local KIND_OF = { [1] = L.INT_2015, [4] = L.INT_0_4, [5] = L.INT_0_5, [10] = L.INT_1_0, [20] = L.INT_2_0 }
local COUNTED = { [1] = true, [4] = true, [5] = true } -- their headers count the hops
local REPORT_INDEX = { [0] = 0, [5] = 1, [10] = 2, [20] = 3 }
local IN_L4 = { tcp = true, udp = true, udp_inserted = true }

local function byte(c, at) return c.tvb(at, 1):uint() end

local function pull_shim(c, w, carrier)
  local start, place = c.at, "int shim"
  need(c, 4, place, "INT shim")
  local first, header, how = byte(c, start), nil, nil
  if carrier == "geneve" then
    first = byte(c, start + byte_of(H.GENEVE_OPTION, "type"))
    header, how = H.GENEVE_OPTION, first >= MD and first <= MX and first or 0
  elseif carrier == "gre" or (carrier == "vxlan_gpe" and first >= 16) then
    -- where TCP and UDP have the next protocol type, these have G and reserved bits
    header = carrier == "gre" and H.SHIM_GRE_2_0 or H.SHIM_GPE_2_0
    how = rule(R.SHIM + floor(first / 16) * 16)
    if floor(how / 16) % 2 == 1 then how = 0 end
  else
    how = rule(R.SHIM + first)
    local old = floor(how / 16) % 2 == 1
    if carrier == "vxlan_gpe" then
      header = H.SHIM_GPE_OLD
      if not old then how = 0 end
    else
      header = old and H.SHIM_OLD or H.SHIM_2_0
    end
  end
  if how % 16 == 0 then
    refuse("unknown_type", place, start, ("%s of type 0x%02x"):format(header.title, first))
  end
  local head, one = noted(w.int, "int.shim", c, header, "int.shim", place)
  local shim = { old = floor(how / 16) % 2 == 1, type = how % 16, length = head.length or head.words,
                 carrier = carrier, numbered = floor(how / 32) % 2, npt = 0,
                 next_protocol = head.next_protocol }
  if header == H.SHIM_2_0 then
    shim.npt = head.next_protocol_type
    if shim.npt == 1 and carrier == "udp_inserted" then shim.carrier = "udp" end
    local row = dialect.original[shim.npt + 1]
    if row then
      one[#one + 1] = { { row }, start, "int.shim" }
      shim.original = values_of(c.tvb, start, { row })[row.name]
    end
  end
  return shim
end

local function layout_of(new, report, nibble)
  return rule(R.INT_LAYOUT + ((new and 1 or 0) * 4 + REPORT_INDEX[report]) * 16 + nibble)
end

local function has_tail(shim, version)
  return (version == 4 or version == 5) and IN_L4[shim.carrier] or false
end

local function is_open(shim) -- whether Length says nothing
  return rule(R.ANY_SHIM_LENGTH) ~= 0 and shim.length == 0 and shim.carrier ~= "geneve"
end

local function overhead(shim, version) -- words of the shim's length that are neither stack nor tail
  local words = shim.carrier == "geneve" and (version == 20 and 3 or 2)
    or 3 + (version == 20 and rule(R.LENGTH_WITH_SHIM) or 0)
  return words + shim.numbered
end

-- An instruction bitmap of the wire as the specifications have it.
local function meaning(bitmap)
  local how = rule(R.SWAPPED)
  if how == 2 then
    local out = 0
    for bit = 0, 15 do if has_bit(bitmap, bit) then out = out + 2 ^ bit end end
    return out
  end
  return how == 1 and bitmap % 256 * 256 + floor(bitmap / 256) or bitmap
end

-- (items by bit, bits of the bitmap that take room): of a dialect's alternatives, and of these without the
-- reserved bits, the first whose size is the hop size; the usual one where none is.
local function form_of(md)
  local alternatives, forms = dialect.items[KIND_OF[md.version]], {}
  for _, items in ipairs(alternatives) do forms[#forms + 1] = { items, md.instructions } end
  for _, items in ipairs(alternatives) do
    local bitmap = 0
    for bit, number in ipairs(items) do
      local known = ITEMS[number].have ~= 0
      if known and has_bit(md.instructions, bit - 1) then bitmap = bitmap + 2 ^ (16 - bit) end
    end
    forms[#forms + 1] = { items, bitmap }
  end
  for _, form in ipairs(forms) do
    if md.hop_words ~= 0 and items_size(form[1], form[2]) == 4 * md.hop_words then return form[1], form[2] end
  end
  return forms[1][1], forms[1][2]
end

local function bits_set(bitmap)
  local count = 0
  for bit = 0, 15 do if has_bit(bitmap, bit) then count = count + 1 end end
  return count
end

-- Whether the stack of words fits into the packet, and holds a whole number of hops.
local function agrees(c, shim, md)
  local words = shim.length - overhead(shim, md.version) - (has_tail(shim, md.version) and 1 or 0)
  local hops = COUNTED[md.version] and md.total_hops or md.hop_words
  if is_open(shim) or words < 0 or c.at + 4 * words > c.limit then return false end
  return hops == 0 and words == 0 or hops ~= 0 and words % hops == 0
end

local function pull_md(c, w, shim)
  local start, place = c.at, "int header"
  if shim.type == DESTINATION then
    refuse("unsupported", "int shim", start - 4, "destination-type INT is not decoded")
  end
  local geneve = shim.carrier == "geneve"
  need(c, (shim.old or geneve) and 8 or 12, place, "INT header")
  local nibble = floor(byte(c, start) / 16)
  local version = shim.old and 0 or layout_of(true, w.report_version, nibble)
  if version == 0 and (shim.old or geneve) then version = layout_of(false, w.report_version, nibble) end
  if version == 0 or (shim.type == MX and version ~= 20) then
    refuse("unknown_version", place, start,
           ("INT version %d behind a shim of %s"):format(nibble, shim.old and "0.5 or 1.0" or "2.x"))
  end
  if version == 20 then need(c, 12, place, "INT header") end
  local least = overhead(shim, version) + ((has_tail(shim, version) and shim.numbered == 0) and 1 or 0)
  if shim.length < least and not is_open(shim) then
    refuse("bad_length", "int shim", start - 4,
           ("shim length %d, at least %d words are needed"):format(shim.length, least))
  end
  local md, one
  if shim.type == MX then
    md, one = noted(w.int, "int.header", c, dialect.mx, "int", place)
    md.hop_words = 0
  elseif version == 20 then
    md, one = noted(w.int, "int.header", c, dialect.md, "int", place)
  else
    md, one = noted(w.int, "int.header", c,
                    version == 10 and H.MD_1_0 or version == 5 and H.MD_0_5 or H.MD_0_4, "int", place)
  end
  md.version = version
  local wire = md.instructions
  md.instructions = meaning(wire)
  if md.instructions ~= wire then one[#one + 1] = { "int.meaning", start, one.size, md.instructions } end
  one.title = ("%s, instructions 0x%04x"):format(one.title, md.instructions)
  if shim.type == MX then
    if rule(R.MX_RECORD) ~= 0 and md.instructions ~= 0 then
      md.hop_words = math.max(shim.length - overhead(shim, 20), 0)
      md.hop_words = items_size(form_of(md)) / 4
    end
    return md
  end
  local items, bits = form_of(md)
  local words = items_size(items, bits) / 4
  if COUNTED[version] and md.hop_words == bits_set(md.instructions) then md.hop_words = words end
  local domain = version == 20 and md.ds_instruction ~= 0 and md.hop_words > words
  local known = md.instructions == 0
  for bit, number in ipairs(items) do
    known = known or (ITEMS[number].have ~= 0 and has_bit(bits, bit - 1))
  end
  if not known and (not domain or md.hop_words == 0) then
    refuse("unknown_instructions", place, start,
           ("all bits of 0x%04x are reserved: perhaps its bytes are swapped"):format(md.instructions),
           agrees(c, shim, md))
  end
  if md.hop_words == 0 or (md.hop_words ~= words and not domain) then
    refuse("bad_hop_size", place, start, ("%d words a hop, 0x%04x implies %d"):format(
      md.hop_words, md.instructions, words), agrees(c, shim, md))
  end
  return md
end

local function stack_words(c, shim, md)
  local counted = (md.total_hops or 0) * md.hop_words
  if is_open(shim) then
    if COUNTED[md.version] then return counted end
    if shim.type == MX or md.hop_words == 0 then return md.hop_words end
    return floor(math.max(c.limit - c.at, 0) / (4 * md.hop_words)) * md.hop_words
  end
  local words = shim.length - overhead(shim, md.version)
  if has_tail(shim, md.version) and not (shim.numbered == 1 and words == counted) then words = words - 1 end
  return words
end

local function source_words(md) -- words that the source alone adds where no remainder of the stack tells them
  return md.version == 20 and (md.ds_flags or 0) ~= 0 and rule(R.SOURCE_WORDS) or 0
end

local function check_bottom(c, size)
  for at = c.at, c.at + size - 4, 4 do
    local last = at + 4 == c.at + size
    if (byte(c, at) >= 128) ~= last then
      refuse("bad_bottom", "int stack", at, last and "the last word lacks the bottom-of-stack bit"
        or "the stack ends before its last word")
    end
  end
end

local function pull_stack(c, w, shim, md)
  local start, place = c.at, "int stack"
  local words = stack_words(c, shim, md)
  local size, hop_size = 4 * words, 4 * md.hop_words
  local hops, rest
  if shim.type == MX then
    hops, rest = hop_size > 0 and 1 or 0, size - hop_size
    if rest < 0 then
      refuse("bad_length", place, start, ("%d bytes for a record of %d"):format(size, hop_size))
    end
  else
    local source = 4 * source_words(md)
    if source > size then
      refuse("bad_length", place, start, ("%d bytes, the source alone adds %d"):format(size, source))
    end
    hops = floor((size - source) / hop_size)
    rest = size - hops * hop_size
    if COUNTED[md.version] and size ~= hop_size * md.total_hops then
      refuse("bad_length", place, start, ("%d hops of %d bytes, the shim's length leaves %d"):format(
        md.total_hops, hop_size, size))
    end
    if rest ~= 0 and (md.ds_instruction or 0) == 0 and (md.ds_flags or 0) == 0 then
      refuse("bad_length", place, start,
             ("%d bytes are no whole number of %d-byte hops"):format(size, hop_size))
    end
  end
  need(c, size + 4 * shim.numbered, place, "INT stack")
  if hops > MAX_HOPS then
    refuse("too_many_hops", place, start, ("%d hops, at most %d are read"):format(hops, MAX_HOPS))
  end
  if md.version == 1 then check_bottom(c, size) end
  local items, bitmap = form_of(md)
  local known, fields, source_only = items_size(items, bitmap), domain_of(md.domain_id)
  w.path = {}
  for hop = 1, hops do
    local at, index = start + (hop - 1) * hop_size, hops - hop
    local long = hop == hops and hop_size + rest or hop_size
    local one = part(w.int, "int.hop", "", at, long)
    one[1] = { "int.hop.index", at, long, index }
    local values, behind, stop = note_items(one, c, at, items, bitmap, long, "int.hop")
    local own_end = shim.type == MX and behind or math.min(behind + math.max(hop_size - known, 0), stop)
    note_domain(one, behind, own_end, fields, md.ds_instruction or 0, "int.hop.domain_specific")
    note_domain(one, own_end, stop, source_only, md.ds_flags or 0, "int.hop.domain_specific")
    w.path[index + 1] = values.node_id and ("%d"):format(values.node_id) or "?"
    one.title = ("Hop %d: node %s"):format(index, w.path[index + 1])
  end
  if hops == 0 then
    note_domain(part(w.int, nil, "", start, size), start, start + size, source_only, md.ds_flags or 0,
                "int.domain_specific")
  end
  c.at = start + size
  if shim.numbered == 1 then
    part(w.int, nil, "", c.at, 4)[1] = { "int.shim.numbered", c.at, 4 }
    c.at = c.at + 4
  end
  w.hops = hops
  if has_tail(shim, md.version) and (is_open(shim) or shim.length > overhead(shim, md.version) + words) then
    return (noted(w.int, "int.tail", c, H.TAIL_0_5, "int.tail", "int tail"))
  end
end

-- Whether what a port or a tunnel announces must be INT: in a packet, or if a report says so.
local function certain(w) return w.tracked or w.report_version == 0 end

-- Shim, header and stack. What is no INT after all (`strict`: it must be) is forgotten.
local function read_int(c, w, carrier, strict)
  if w.hops then return false end -- the first is the packet's: a tunnel follows IFA
  w.int, w.int_at = {}, c.at
  local shim, md
  local fine, damage = pcall(function()
    shim = pull_shim(c, w, carrier)
    md = pull_md(c, w, shim)
  end)
  if not fine then
    if type(damage) ~= "table" then error(damage, 0) end
    local cut = damage.place == "int header" and damage.reason == "truncated"
    if strict or damage.sure or cut then error(damage, 0) end
    w.int = nil
    return false
  end
  w.shim, w.md = shim, md
  w.tail = pull_stack(c, w, shim, md)
  w.int_end = c.at
  return true
end

-- -------------------------------------------------------------------------------------------------- walk

local read_ip -- below

local function note_l4(c, w)
  local ports = peek(c, H.PORTS, "inner l4")
  w.flow.sport, w.flow.dport = ports.sport, ports.dport
  return ports
end

-- The bytes without their INT, as the packet's source sent it: what Wireshark's own dissectors are given.
local function set_bytes(w, at, size, value) w.fixes[#w.fixes + 1] = { at, size, value } end

local function behind_l4(c, w, ip, l4_at)
  if w.tail then
    if w.tail.protocol == ip.protocol then
      w.flow.dport = w.tail.dport
      set_bytes(w, l4_at + byte_of(H.PORTS, "dport"), 2, w.tail.dport)
    end
  elseif w.shim.npt == 1 then
    w.flow.dport = w.shim.original
    set_bytes(w, l4_at + byte_of(H.PORTS, "dport"), 2, w.shim.original)
  elseif w.shim.npt == 2 then
    w.int_at = l4_at -- the UDP header was added with INT
    set_bytes(w, ip.protocol_at, 1, w.shim.original)
    w.flow.proto, w.flow.sport, w.flow.dport = w.shim.original, nil, nil
    if w.flow.proto == L.PROTOCOL_TCP or w.flow.proto == L.PROTOCOL_UDP then note_l4(c, w) end
  end
end

local function is_marker(c)
  local size = rule(R.MARKER)
  if size == 0 or c.at + size > c.limit then return 0 end
  for i = 0, size - 1 do
    if byte(c, c.at + i) ~= rule(R.MARKER + 1 + i) then return 0 end
  end
  return size
end

local function read_tcp(c, w, ip)
  local l4_at, ports = c.at, note_l4(c, w)
  local by_port = rule(R.TCP_PORTS) ~= 0 and role(ports.dport, R.ROLE_INT)
  local assume = w.report_version ~= 0 and rule(R.ASSUME_INT) ~= 0
  local likely = by_port or assume or int_by_dscp(ip.dscp)
  if not likely and rule(R.MARKER) == 0 then return end
  local strict = w.tracked
  local fine, damage = pcall(function()
    local head = peek(c, H.TCP, "inner l4")
    local size = 4 * head.header_words
    if size < H.TCP.size then
      refuse("bad_length", "inner l4", l4_at, ("TCP header of %d bytes, at least 20 are needed"):format(size))
    end
    skip(c, rule(R.FIXED_TCP) ~= 0 and H.TCP.size or size, "inner l4", "TCP with options")
  end)
  if not fine then
    if type(damage) ~= "table" or (strict and likely) then error(damage, 0) end
    return
  end
  local marker = is_marker(c)
  if marker == 0 and not likely then return end
  c.at = c.at + marker
  if read_int(c, w, "tcp", strict and likely or by_port and certain(w)) then behind_l4(c, w, ip, l4_at) end
end

local TUNNELS = {} -- role of a UDP port: what reads the packet in it

local function read_udp(c, w, ip)
  local l4_at, ports = c.at, note_l4(c, w)
  for _, tunnel in ipairs(TUNNELS) do
    if role(ports.dport, tunnel[1]) then
      pull(c, H.UDP, "inner l4")
      w.lengths[#w.lengths + 1] = l4_at + byte_of(H.UDP, "length")
      return tunnel[2](c, w, ip, l4_at)
    end
  end
  local by_port = role(ports.dport, R.ROLE_INT)
  local inserted = role(ports.dport, R.ROLE_INSERTED)
  local assume = w.report_version ~= 0 and rule(R.ASSUME_INT) ~= 0
  local likely = by_port or inserted or assume or int_by_dscp(ip.dscp)
  if not likely and rule(R.MARKER) == 0 then return end
  local strict = w.tracked
  local fine, damage = pcall(pull, c, H.UDP, "inner l4")
  if not fine then
    if type(damage) ~= "table" or (strict and likely) then error(damage, 0) end
    return
  end
  w.lengths[#w.lengths + 1] = l4_at + byte_of(H.UDP, "length")
  local marker = is_marker(c)
  if marker == 0 and not likely then return end
  c.at = c.at + marker
  local carrier = inserted and "udp_inserted" or "udp"
  if read_int(c, w, carrier, strict and likely or by_port and certain(w)) then behind_l4(c, w, ip, l4_at) end
end

-- Once the INT is complete, only the flow of what it is about is wanted: damage behind it is no refusal.
local function quietly(read, c, w, what)
  local fine, damage = pcall(read, c, w, what)
  if not fine and type(damage) ~= "table" then error(damage, 0) end
end

local function read_type(c, w, ethertype) -- what follows an EtherType
  if MPLS_TYPES[ethertype] then
    note_layer(w, "mpls")
    local labels = 0
    repeat
      if labels == L.MAX_LABELS then return end
      labels = labels + 1
    until pull(c, H.MPLS, "tunnel").bottom == 1
    if c.at >= c.limit then return end
    local nibble = floor(byte(c, c.at) / 16)
    if nibble == 4 or nibble == 6 then read_ip(c, w, nibble) end
  elseif version_of(ethertype) ~= 0 then
    read_ip(c, w, version_of(ethertype))
  end
end

local function read_ethernet(c, w, place)
  read_type(c, w, pull_ethernet(c, place, w))
end

local function read_gre(c, w, ip)
  local start, head = c.at, pull(c, H.GRE, "tunnel")
  local optional = head.checksum_present + head.key_present + head.sequence_present
  if head.version ~= 0 or head.routing_present == 1 then return end
  local key = skip(c, 4 * optional, "tunnel", "GRE with options") + 4 * head.checksum_present
  note_layer(w, "gre", head.key_present == 1 and c.tvb(key, 4):uint() or nil)
  local int_type = rule(R.GRE_PROTOCOL) * 256 + rule(R.GRE_PROTOCOL + 1)
  if int_type ~= 0 and head.type == int_type then
    if read_int(c, w, "gre", certain(w)) then
      set_bytes(w, start + byte_of(H.GRE, "type"), 2, w.shim.next_protocol)
      quietly(read_type, c, w, w.shim.next_protocol)
    end
  elseif head.type == L.ETHERTYPE_TEB then
    read_ethernet(c, w, "tunnel")
  elseif head.type == L.ETHERTYPE_ERSPAN_2 then
    note_layer(w, "erspan")
    if head.sequence_present == 1 then pull(c, H.ERSPAN_2, "tunnel") end
    read_ethernet(c, w, "tunnel")
  elseif head.type == L.ETHERTYPE_ERSPAN_3 then
    note_layer(w, "erspan")
    if pull(c, H.ERSPAN_3, "tunnel").optional == 1 then skip(c, 8, "tunnel", "ERSPAN's optional part") end
    read_ethernet(c, w, "tunnel")
  else
    read_type(c, w, head.type)
  end
end

local function read_vxlan(c, w)
  local head = pull(c, H.VXLAN, "tunnel")
  if floor(head.flags / 8) % 2 == 0 then return end -- without a VNI it is no VXLAN
  note_layer(w, "vxlan", head.vni)
  read_ethernet(c, w, "tunnel")
end

local function read_next(c, w, next_protocol) -- what follows a next protocol of VXLAN-GPE
  local inner = rule(R.GPE_NEXT + next_protocol)
  if inner == 3 then
    read_ethernet(c, w, "tunnel")
  elseif inner == 4 or inner == 5 then
    read_ip(c, w, inner == 4 and 4 or 6)
  end
end

local function is_frame(c)
  if c.at + 14 > c.limit then return false end
  local type = byte(c, c.at + 12) * 256 + byte(c, c.at + 13)
  return version_of(type) ~= 0 or VLAN_TYPES[type] or MPLS_TYPES[type] or false
end

local function read_gpe(c, w)
  local start, head = c.at, pull(c, H.VXLAN_GPE, "tunnel")
  if head.flags % 2 == 1 or floor(head.flags / 16) % 4 ~= 0 then return end -- OAM, or another version
  note_layer(w, "vxlan_gpe", floor(head.flags / 8) % 2 == 1 and head.vni or nil)
  if floor(head.flags / 4) % 2 == 0 and (rule(R.GPE_NEXT + head.next_protocol) ~= 9 or is_frame(c)) then
    read_ethernet(c, w, "tunnel") -- early INT has a next protocol without the P flag
  elseif rule(R.GPE_NEXT + head.next_protocol) == 9 then
    if read_int(c, w, "vxlan_gpe", certain(w)) then
      set_bytes(w, start + byte_of(H.VXLAN_GPE, "next_protocol"), 1, w.shim.next_protocol)
      quietly(read_next, c, w, w.shim.next_protocol)
    end
  else
    read_next(c, w, head.next_protocol)
  end
end

local function read_geneve(c, w)
  local head = pull(c, H.GENEVE, "tunnel")
  if head.version ~= 0 then return end
  note_layer(w, "geneve", head.vni)
  local stop = skip(c, 4 * head.option_words, "tunnel", "Geneve options") + 4 * head.option_words
  local options = cursor(c.tvb, c.at - 4 * head.option_words, c.stop)
  options.limit = math.min(c.limit, stop)
  while options.at < stop do
    local start, option = options.at, peek(options, H.GENEVE_OPTION, "tunnel")
    local known = false
    for i = 0, 3 do
      local class = rule(R.GENEVE_CLASSES + 2 * i) * 256 + rule(R.GENEVE_CLASSES + 2 * i + 1)
      known = known or (class ~= 0 and class == option.class)
    end
    if known and not w.int then
      if read_int(options, w, "geneve", certain(w)) then w.keep = true end
    end
    options.at = start
    skip(options, 4 + 4 * option.words, "tunnel", "Geneve option")
  end
  if head.control == 1 then return end
  local inner = head.type == L.ETHERTYPE_TEB and read_ethernet or read_type
  local what = head.type == L.ETHERTYPE_TEB and "tunnel" or head.type
  if w.int then quietly(inner, c, w, what) else inner(c, w, what) end
end

local function read_gtp(c, w)
  local head = pull(c, H.GTP_U, "tunnel")
  if head.version ~= 1 or head.protocol ~= 1 or head.message ~= L.GTP_U_USER_PACKET then return end
  note_layer(w, "gtp_u", head.teid)
  if head.extension + head.sequence_present + head.npdu_present > 0 then
    local following = pull(c, H.GTP_U_OPTIONAL, "tunnel").next_extension
    while head.extension == 1 and following ~= 0 do
      need(c, 1, "tunnel", "GTP-U extension")
      local size = 4 * byte(c, c.at)
      if size == 0 then return end
      local start = skip(c, size, "tunnel", "GTP-U extension")
      following = byte(c, start + size - 1)
    end
  end
  if c.at >= c.limit then return end
  local nibble = floor(byte(c, c.at) / 16)
  if nibble == 4 or nibble == 6 then read_ip(c, w, nibble) end
end

-- Whether IFA 2.0 before TCP or UDP begins here: the protocol is one for experiments.
local function is_ifa(c)
  if c.at + H.IFA.size > math.min(c.stop, c.limit) then return false end
  local head = values_of(c.tvb, c.at, H.IFA)
  local following = head.next_header
  return head.version == 2 and (following == L.PROTOCOL_TCP or following == L.PROTOCOL_UDP)
end

local IFA_UNREAD = { -- flags of what is not read
  { "fragmented", "metadata fragments are" }, { "tail_stamp", "a stack at the packet's end is" },
  { "checksum_present", "the checksum header is" },
}

local function check_ifa(head)
  if head.namespace ~= 15 then
    refuse("unknown_type", "ifa", head.at,
           ("metadata of namespace %d, only that of 15 is known"):format(head.namespace))
  end
  for _, flag in ipairs(IFA_UNREAD) do
    if head[flag[1]] == 1 then refuse("unsupported", "ifa", head.at, flag[2] .. " not read") end
  end
end

-- The header of TCP or UDP between the IFA header and the metadata.
local function skip_l4(c, protocol)
  local start, place = c.at, "ifa"
  if protocol == L.PROTOCOL_UDP then return skip(c, H.UDP.size, place, "UDP") end
  local size = 4 * peek(c, H.TCP, place).header_words
  if size < H.TCP.size then
    refuse("bad_length", place, start, ("TCP header of %d bytes, at least 20 are needed"):format(size))
  end
  skip(c, size, place, "TCP with options")
end

local IFA_EXTRAS = { ttl = true, queue_bytes = true, pool_cells = true } -- null in JSON if all bits are ones

local function note_node(w, c, at, index)
  local one = part(w.int, "int.hop", "", at, H.IFA_HOP.size)
  one[1] = { "int.hop.index", at, H.IFA_HOP.size, index }
  for _, row in ipairs(H.IFA_HOP) do
    local unavailable = IFA_EXTRAS[row.name] and all_ones(c.tvb, at + row.first, row.size)
    one[#one + 1] = { { row }, at, "int.hop", unavailable }
  end
  local node = values_of(c.tvb, at, H.IFA_HOP)
  local time, latency = node.seconds * 1e9 + node.nanoseconds, node.residence_time
  if latency >= 1e9 then latency = latency - 1e9 end -- some switches add a second
  local function derived(name, bits, field, value)
    local offset = byte_of(H.IFA_HOP, field)
    one[#one + 1] = { ("int.hop.%s:0/%d"):format(name, bits), at + offset, 4, value }
  end
  derived("hop_latency", 32, "residence_time", latency)
  derived("ingress_time", 64, "nanoseconds", UInt64.new(time % 2 ^ 32, floor(time / 2 ^ 32)))
  local opaque = byte_of(H.IFA_HOP, "queue_bytes")
  if c.tvb(at + opaque, H.IFA_HOP.size - opaque):bytes():tohex():find("[^0]") then
    derived("queue_occupancy", 24, "queue_cells", node.queue_cells)
  end
  w.path[index + 1] = ("%d"):format(node.node_id)
  one.title = ("Hop %d: node %s"):format(index, w.path[index + 1])
end

-- The IFA header, the ports and the stack; damage of what a report does not announce is ordinary traffic.
local function read_ifa(c, w, ip)
  local place, start, sure = "ifa", c.at, certain(w)
  w.int, w.int_at = {}, start
  local fine, damage = pcall(function()
    local head, one = noted(w.int, "int.header", c, H.IFA, "int", place)
    one.title = "IFA 2.0"
    check_ifa(head)
    w.flow.proto = head.next_header
    local ports = peek(c, H.PORTS, place)
    w.flow.sport, w.flow.dport = ports.sport, ports.dport
    skip_l4(c, head.next_header)
    local at, metadata = c.at, pull(c, H.IFA_METADATA, place)
    sure, one.size = true, c.at - start
    one[2] = { H.IFA_METADATA, at, "int" }
    w.md, w.shim, w.path = { version = IFA.version, hop_words = H.IFA_HOP.size / 4 },
      { type = IFA.type, carrier = "ip_protocol" }, {}
    local size = 4 * metadata.words
    if size % H.IFA_HOP.size ~= 0 then
      refuse("bad_hop_size", place, at,
             ("a stack of %d bytes, a node takes %d"):format(size, H.IFA_HOP.size))
    end
    c.at = at
    need(c, H.IFA_METADATA.size + size, place, "IFA stack")
    local hops = size / H.IFA_HOP.size
    for hop = 1, hops do
      note_node(w, c, at + H.IFA_METADATA.size + (hop - 1) * H.IFA_HOP.size, hops - hop)
    end
    w.hops, w.keep, c.at = hops, true, at + H.IFA_METADATA.size + size
  end)
  if not fine then
    if type(damage) ~= "table" or sure then error(damage, 0) end
    w.int = nil
    return
  end
  if w.flow.proto ~= L.PROTOCOL_UDP then return end
  for _, tunnel in ipairs(TUNNELS) do
    if role(w.flow.dport, tunnel[1]) then return quietly(tunnel[2], c, w, ip) end
  end
end

TUNNELS[1] = { R.ROLE_VXLAN, read_vxlan }
TUNNELS[2] = { R.ROLE_GPE, read_gpe }
TUNNELS[3] = { R.ROLE_GENEVE, read_geneve }
TUNNELS[4] = { R.ROLE_GTPU, read_gtp }

function read_ip(c, w, version)
  if w.depth == L.MAX_LAYERS then
    refuse("too_many_layers", "inner ip", c.at, ("more than %d IP headers"):format(L.MAX_LAYERS))
  end
  local start, ip = c.at, pull_ip(c, version, "inner ip", true)
  w.depth = w.depth + 1
  w.flow = { at = ip.at, version = ip.version, src = ip.source, dst = ip.destination, proto = ip.protocol,
             vlan = w.vlan, tunnel_id = w.tunnel_id, layers = table.concat(w.layers, " ") }
  w.lengths[#w.lengths + 1] = ip.length_at
  if ip.fragment then refuse("fragment", "inner ip", start, "the inner packet is a fragment") end
  local tcp, udp = ip.protocol == L.PROTOCOL_TCP, ip.protocol == L.PROTOCOL_UDP
  if w.int then -- it was found further out
    if tcp or udp then note_l4(c, w) end
  elseif tcp then
    read_tcp(c, w, ip)
  elseif udp then
    read_udp(c, w, ip)
  elseif ip.protocol ~= 0 and ip.protocol == rule(R.IFA_PROTOCOL) then
    if is_ifa(c) then read_ifa(c, w, ip) end
  elseif ip.protocol == L.PROTOCOL_GRE then
    read_gre(c, w, ip)
  elseif ip.protocol == L.PROTOCOL_IPV4 or ip.protocol == L.PROTOCOL_IPV6 then
    note_layer(w, "ip_in_ip")
    read_ip(c, w, ip.protocol == L.PROTOCOL_IPV4 and 4 or 6)
  end
end

-- ----------------------------------------------------------------------------------------------- reports

local INNER_TLV, INNER_ETHERNET, INNER_IPV4, INNER_IPV6 = 1, 3, 4, 5
local REPORT_LAYOUT = { [5] = "0.5", [10] = "1.0", [20] = "2.0" }

local function reading(tvb, version) -- what is found in one report, or in one packet
  return { tvb = tvb, report = {}, lengths = {}, fixes = {}, layers = {}, depth = 0,
           report_version = version, tracked = false }
end

local function read_tlvs(c, w)
  local inner, start, stop
  while c.at < c.stop do
    local at = c.at
    local tlv, one = noted(w.report, "report.tlv", c, H.TLV_2_0, "report.tlv", "report metadata")
    local size = 4 * tlv.length
    if c.at + size > c.stop then
      refuse("truncated", "report metadata", at, ("TLV of %d bytes, %d are left"):format(size, c.stop - c.at))
    end
    one.size = one.size + size
    if not inner and tlv.type >= 1 and tlv.type <= 3 then
      inner, start, stop = INNER_ETHERNET + tlv.type - 1, c.at, c.at + size
    end
    c.at = c.at + size
  end
  return inner, start, stop
end

local function read_packet(c, w, inner) -- the packet that a report is about
  if inner == INNER_TLV then
    local start, stop
    inner, start, stop = read_tlvs(c, w)
    if not inner then return end
    c = cursor(c.tvb, start, stop)
  end
  if inner == INNER_ETHERNET or inner == INNER_IPV4 or inner == INNER_IPV6 then
    w.packet, w.packet_at, w.packet_end = inner, c.at, c.stop
  end
  if inner == INNER_ETHERNET then
    read_ethernet(c, w, "inner ethernet")
  elseif inner == INNER_IPV4 then
    read_ip(c, w, 4)
  elseif inner == INNER_IPV6 then
    read_ip(c, w, 6)
  end
end

local function kind_of(head)
  if head.dropped == 1 then return "drop" end
  return head.congested == 1 and head.tracked == 0 and "queue" or "int"
end

local function read_report_0_5(c, w)
  local head = noted(w.report, nil, c, H.REPORT_0_5, "report", "report header")
  w.tracked, w.sequence = head.tracked == 1, head.sequence
  local at = R.FORM_0_5 + 3 * head.next_protocol
  local form, size, inner = rule(at), rule(at + 1), rule(at + 2)
  if form == 255 then
    refuse("unknown_type", "report header", head.at, ("NProto %d"):format(head.next_protocol))
  end
  w.kind = form == 3 and kind_of(head) or ({ [0] = "int", "drop", "queue" })[form]
  if form == 3 then
    local start = skip(c, size, "report metadata", "the form's header")
    part(w.report, nil, "", start, size)[1] = { "report.skipped", start, size }
  elseif form ~= 0 then
    local header = form == 1 and H.DROP_0_5 or H.SWITCH_LOCAL_0_5
    local own = peek(c, header, "report metadata")
    w.node = own.node_id
    local node = part(w.report, nil, "", c.at, 4)
    node[1] = { { header[1] }, c.at, "report" }
    local one = part(w.report, "report.metadata", header.title, c.at, header.size)
    -- behind the node id, by the bits of the form
    local kind, bitmap = L.DROP_OF_0_5, 0x6000
    if form == 2 then kind, bitmap = L.LOCAL_OF_0_5, 0x7000 end
    note_items(one, c, c.at + 4, dialect.items[kind][1], bitmap, header.size - 4, "report.metadata")
    c.at = c.at + header.size
  end
  read_packet(c, w, inner)
end

local function note_own(c, w, items, bitmap, size, domain_id, ds_bits)
  if size == 0 then return end
  local at = c.at
  need(c, size, "report metadata", "optional metadata")
  local one = part(w.report, "report.metadata", "The report's own metadata", at, size)
  local _, behind, stop = note_items(one, c, at, items, bitmap, size, "report.metadata")
  note_domain(one, behind, stop, (domain_of(domain_id)), ds_bits or 0, "report.metadata.domain_specific")
end

local function read_report_1_0(c, w)
  local head = noted(w.report, nil, c, H.REPORT_1_0, "report", "report header")
  w.tracked, w.sequence, w.node, w.kind = head.tracked == 1, head.sequence, head.node_id, kind_of(head)
  local inner = rule(R.INNER_1_0 + head.next_protocol)
  if inner == 255 then
    refuse("unknown_type", "report header", head.at, ("NProt %d"):format(head.next_protocol))
  end
  local items, bitmap = dialect.items[L.OWN_OF_1_0][1], head.metadata_bits * 1024
  local size = items_size(items, bitmap)
  if head.length ~= 4 + size / 4 and rule(R.ANY_REPORT_LENGTH) == 0 then
    refuse("bad_length", "report header", head.at,
           ("Length %d words, its metadata bits imply %d"):format(head.length, 4 + size / 4))
  end
  note_own(c, w, items, bitmap, size)
  c.at = c.at + size
  read_packet(c, w, inner)
end

local function read_main(c, w, head) -- INT main contents with their metadata
  local start, place = c.at, "report metadata"
  local main = noted(w.report, nil, c, H.MAIN_2_0, "report", place)
  local items = dialect.items[L.OWN_OF_2_0][1]
  local size, stated = items_size(items, main.metadata_bits), 4 * head.metadata_length
  if head.report_length == 0 and stated == 0 then stated = size end -- bmv2 programs leave both lengths 0
  if stated < size then
    refuse("bad_length", place, start,
           ("MD Length %d bytes, 0x%04x implies %d"):format(stated, main.metadata_bits, size))
  end
  local stop = c.at + stated
  if stop > c.stop then
    local known = head.report_length ~= 0 and head.report_length ~= 255
    refuse(known and "bad_length" or "truncated", place, start,
           ("MD Length %d bytes, %d are left"):format(stated, c.stop - c.at))
  end
  note_own(c, w, items, main.metadata_bits, stated, main.domain_id, main.ds_metadata_bits)
  c.at = stop
end

local function guard(w, read) -- a refusal becomes `damage` of the reading
  local fine, damage = pcall(read)
  if not fine then
    if type(damage) ~= "table" then error(damage, 0) end
    w.damage = damage
  end
  return fine
end

local function read_individual(c, w, announced) -- false where the next report's place is unknown
  local start, head, stop = c.at, nil, nil
  local fine = guard(w, function()
    head = noted(w.report, nil, c, H.REPORT_2_0, "report", "report header")
    local unstated = head.report_length == 255
      or (head.report_length == 0 and not (head.report_type == 0 and head.inner_type == 0))
    stop = announced
    if not unstated and rule(R.ANY_REPORT_LENGTH) == 0 then
      stop = c.at + 4 * head.report_length
      if announced < stop and stop < announced + 4 then stop = announced end
    end
    if stop > c.stop then
      refuse("truncated", "report header", start,
             ("the report takes %d bytes, %d are left"):format(stop - start, c.stop - start))
    end
  end)
  if not fine then return false end
  local inside = cursor(c.tvb, c.at, stop)
  c.at = stop
  local at = R.MAIN_2_0 + 2 * head.report_type
  local form, size, inner = rule(at), rule(at + 1), rule(R.INNER_2_0 + head.inner_type)
  w.tracked, w.kind = head.tracked == 1, form ~= 0 and kind_of(head) or "inner"
  guard(w, function()
    if form == 2 then
      refuse("unsupported", "report header", start, "IOAM report: its contents are not defined")
    elseif form == 255 then
      refuse("unknown_type", "report header", start, ("RepType %d"):format(head.report_type))
    elseif inner == 255 then
      refuse("unknown_type", "report header", start, ("InType %d"):format(head.inner_type))
    end
    if form == 1 then
      read_main(inside, w, head)
    elseif form == 3 then
      local skipped = skip(inside, size, "report metadata", "main contents")
      part(w.report, nil, "", skipped, size)[1] = { "report.skipped", skipped, size }
    end
    read_packet(inside, w, inner)
  end)
  return true
end

-- The readings of one datagram's payload; the first has what the group header of a 2.0 says.
local function read_datagram(tvb, announced)
  local c = cursor(tvb, 0, tvb:len())
  local w = reading(tvb, 0)
  w.start, w.stop = 0, tvb:len()
  local found = { w }
  guard(w, function()
    need(c, 1, "report header", "report")
    local first = byte(c, 0)
    local version = rule(R.FIRST_BYTE + first)
    if version == 0 then
      refuse("unknown_version", "report header", 0, ("report begins with 0x%02x"):format(first))
    end
    w.report_version = version
    if version == 5 then return read_report_0_5(c, w) end
    if version == 10 then return read_report_1_0(c, w) end
    local group = noted(w.report, nil, c, H.GROUP_2_0, "report", "report header")
    found.group, w.report = w.report, {}
    local bare = rule(R.BARE_2_0)
    local index = 0
    while index == 0 or (bare == 0 and c.at + H.REPORT_2_0.size <= announced) do -- less is padding
      local one = index == 0 and w or reading(tvb, 20)
      found[index + 1] = one
      one.report_version, one.node, one.sequence, one.start = 20, group.node_id, group.sequence, c.at
      if bare ~= 0 then
        one.kind = "int"
        guard(one, function()
          if announced > c.stop then
            refuse("truncated", "report header", c.at,
                   ("the report takes %d bytes, %d are left"):format(announced - c.at, c.stop - c.at))
          end
          read_packet(cursor(tvb, c.at, announced), one, bare)
        end)
        one.stop = c.stop
        return
      end
      local more = read_individual(c, one, announced)
      one.stop = math.min(c.at, c.stop)
      if not more then
        one.stop = c.stop
        return
      end
      index = index + 1
    end
  end)
  return found
end

-- ------------------------------------------------------------------------------------------------ showing

local function show_damage(tree, w)
  local damage = w.damage
  local at = math.min(damage.at, math.max(w.tvb:len() - 1, 0))
  local range = w.tvb:len() > 0 and w.tvb(at, math.min(1, w.tvb:len() - at)) or w.tvb()
  tree:add(FIELD["error.reason"], range, damage.reason):set_generated()
  tree:add(FIELD["error.place"], range, damage.place):set_generated()
  tree:add(FIELD["error.byte"], range, w.tvb:offset() + damage.at):set_generated()
  local item = tree:add(FIELD["error.detail"], range, damage.detail)
  item:set_generated()
  item:add_proto_expert_info(EXPERT[damage.reason], ("%s at %s: %s"):format(
    damage.reason:gsub("_", " "), damage.place, damage.detail))
end

local function name_of(w) -- "INT 2 MD"
  if w.md.version == IFA.version then return "IFA 2.0" end
  return ("INT %s %s"):format(LAYOUT[w.md.version], MODE[w.shim.type]:upper())
end

local function show_int(tree, w)
  local list = w.int
  if not list or #list == 0 then return end
  local last = list[#list]
  local title = "In-band Network Telemetry"
  if w.md then title = name_of(w):gsub("^INT", title):gsub("^IFA", "Inband Flow Analyzer") end
  if w.hops then title = ("%s, %d hops"):format(title, w.hops) end
  local start = list[1].at
  local sub = tree:add(PROTO_INT, w.tvb(start, last.at + last.size - start), title)
  if w.md then
    local range = w.tvb(start, last.at + last.size - start)
    sub:add(FIELD["int.layout"], range, LAYOUT[w.md.version]):set_generated()
    sub:add(FIELD["int.mode"], range, MODE[w.shim.type]):set_generated()
    sub:add(FIELD["int.carrier"], range, w.shim.carrier):set_generated()
    sub:add(FIELD["int.hop_size"], range, 4 * w.md.hop_words):set_generated()
    if w.hops then
      sub:add(FIELD["int.hop_count"], range, w.hops):set_generated()
      sub:add(FIELD["int.path"], range, table.concat(w.path, " → ")):set_generated()
    end
  end
  for _, one in ipairs(list) do show_part(sub, w.tvb, one) end
  return sub
end

local function show_flow(tree, w)
  local flow = w.flow
  if not flow then return end
  local size = flow.version == 4 and 4 or 16
  local sub = tree:add(FIELD["flow"], w.tvb(flow.src, 2 * size))
  local six = flow.version == 6 and "6" or ""
  sub:add(FIELD["flow.src" .. six], w.tvb(flow.src, size))
  sub:add(FIELD["flow.dst" .. six], w.tvb(flow.dst, size))
  for _, name in ipairs({ "proto", "sport", "dport" }) do
    if flow[name] then sub:add(FIELD["flow." .. name], w.tvb(flow.at, 1), flow[name]):set_generated() end
  end
  local around = w.tvb(0, flow.at)
  if flow.vlan then sub:add(FIELD["flow.vlan"], around, flow.vlan):set_generated() end
  if flow.tunnel_id then sub:add(FIELD["flow.tunnel_id"], around, flow.tunnel_id):set_generated() end
  if #flow.layers > 0 then sub:add(FIELD["flow.layers"], around, flow.layers):set_generated() end
end

-- The packet of a report, without its INT, by Wireshark's own dissectors.
local inside = false
local ETHERNET, IPV4, IPV6 = Dissector.get("eth_withoutfcs"), Dissector.get("ip"), Dissector.get("ipv6")

local function packet_bytes(w)
  local bytes = w.tvb(w.packet_at, w.packet_end - w.packet_at):bytes()
  local function put(at, size, value)
    for i = size - 1, 0, -1 do
      bytes:set_index(at - w.packet_at + i, value % 256)
      value = floor(value / 256)
    end
  end
  for _, fix in ipairs(w.fixes) do put(fix[1], fix[2], fix[3]) end
  local cut = w.int_end - w.int_at
  for _, at in ipairs(w.lengths) do
    if at < w.int_at then
      local length = w.tvb(at, 2):uint()
      if length >= cut then put(at, 2, length - cut) end
    end
  end
  local from, to = w.int_at - w.packet_at, w.int_end - w.packet_at
  if to >= bytes:len() then return bytes:subset(0, from) end
  return bytes:subset(0, from) .. bytes:subset(to, bytes:len() - to)
end

local function show_packet(tree, w, pinfo)
  if not w.packet or w.packet_end <= w.packet_at then return end
  local range = w.tvb(w.packet_at, w.packet_end - w.packet_at)
  local sub = tree:add(FIELD["report.packet"], range)
  local tvb = range:tvb()
  if w.int_end and not w.keep and not w.damage then
    sub:set_text("Packet of the report, without its INT")
    tvb = packet_bytes(w):tvb("Packet without INT")
  end
  local kept = { pinfo.src, pinfo.dst, pinfo.net_src, pinfo.net_dst, pinfo.dl_src, pinfo.dl_dst,
                 pinfo.src_port, pinfo.dst_port }
  inside = true
  local dissector = w.packet == INNER_ETHERNET and ETHERNET or w.packet == INNER_IPV4 and IPV4 or IPV6
  local whole = pcall(function() dissector:call(tvb, pinfo, sub) end) -- a cut packet ends in an error
  inside = false
  pinfo.src, pinfo.dst, pinfo.net_src, pinfo.net_dst = kept[1], kept[2], kept[3], kept[4]
  pinfo.dl_src, pinfo.dl_dst, pinfo.src_port, pinfo.dst_port = kept[5], kept[6], kept[7], kept[8]
  if not whole then sub:append_text(" (cut)") end
end

local function summary(w)
  if w.damage then return ("refused: %s at %s"):format(w.damage.reason:gsub("_", " "), w.damage.place) end
  local text = ("%s %s"):format(REPORT_LAYOUT[w.report_version] or "packet", w.kind or "")
  if w.sequence then text = ("%s, sequence %d"):format(text, w.sequence) end
  if w.node then text = ("%s, node %d"):format(text, w.node) end
  if w.path and #w.path > 0 then text = ("%s, path %s"):format(text, table.concat(w.path, " → ")) end
  return text
end

local function show_reading(tree, w, pinfo, index, range)
  if w.report_version ~= 0 then
    tree:add(FIELD["report.layout"], range, REPORT_LAYOUT[w.report_version]):set_generated()
  end
  if w.kind then tree:add(FIELD["report.kind"], range, w.kind):set_generated() end
  tree:add(FIELD["report.index"], range, index):set_generated()
  for _, one in ipairs(w.report) do show_part(tree, w.tvb, one) end
  show_int(tree, w)
  show_flow(tree, w)
  if w.damage then show_damage(tree, w) end
  show_packet(tree, w, pinfo)
end

-- --------------------------------------------------------------------------------------------- protocols

local handled = 0 -- the last frame in which a report was read
local encapsulation = Field.new("frame.encap_type")
local UDP_LENGTH = Field.new("udp.length")
local IPV4_TOTAL, IPV6_PAYLOAD = Field.new("ip.len"), Field.new("ipv6.plen")

local MORE, MORE_6 = Field.new("ip.flags.mf"), Field.new("ipv6.fraghdr.more")

local function last_of(field) -- (value as it is in the packet, its offset in the frame)
  local all = { field() }
  local last = all[#all]
  if last then return last.range:uint(), last.offset end
end

-- Payload bytes by the UDP header's length, and whether that contradicts the IP header around it.
local function announced_bytes(tvb)
  local length, udp_at = last_of(UDP_LENGTH)
  local four, four_at = last_of(IPV4_TOTAL)
  local six, six_at = last_of(IPV6_PAYLOAD)
  if not length then return tvb:reported_len(), false end
  local udp_end, ip_end = udp_at - byte_of(H.UDP, "length") + length, math.huge
  if four and (not six or four_at > six_at) then
    ip_end = four_at - IPV4_LENGTH + four
  elseif six then
    ip_end = six_at - IPV6_LENGTH + H.IPV6.size + six
  end
  local more, more_6 = { MORE() }, { MORE_6() }
  local fragment = (#more > 0 and more[#more].value) or (#more_6 > 0 and more_6[#more_6].value)
  return length - H.UDP.size, length < H.UDP.size or udp_end > ip_end or fragment
end

local function show_datagram(tvb, pinfo, root, announced)
  handled = pinfo.number
  local found = read_datagram(tvb, announced)
  local range = tvb()
  local tree = root:add(PROTO, range, "Telemetry Report " .. summary(found[1]))
  for _, one in ipairs(found.group or {}) do show_part(tree, tvb, one) end
  local texts = {}
  for index, w in ipairs(found) do
    local mine, mine_range = tree, range
    if found.group then
      mine_range = tvb(math.min(w.start, tvb:len() - 1), math.max(math.min(w.stop, tvb:len()) - w.start, 0))
      mine = tree:add(FIELD["report.individual"], mine_range)
      mine:set_text(("Report %d: %s"):format(index - 1, summary(w)))
    end
    show_reading(mine, w, pinfo, index - 1, mine_range)
    if index <= 4 then texts[index] = summary(w) end
  end
  if #found > 4 then texts[#texts + 1] = ("… %d reports"):format(#found) end
  pinfo.cols.protocol = "INT report"
  pinfo.cols.info:clear_fence() -- what the packets in the reports wrote
  pinfo.cols.info = table.concat(texts, "; ")
end

function PROTO.dissector(tvb, pinfo, root)
  if inside or not (report_ports[pinfo.dst_port] or pinfo.match == pinfo.dst_port) then return 0 end
  local announced, contradicted = announced_bytes(tvb)
  if contradicted then return 0 end -- told behind all other dissectors, from the frame's bytes
  show_datagram(tvb, pinfo, root, announced)
  return tvb:len()
end

-- Every frame, behind all other dissectors: INT and IFA in packets, and reports whose UDP header is damaged.
local SLL_TYPES = { [25] = "SLL", [210] = "SLL2" }

local function read_link(c, w, link) -- EtherType and IP version behind a frame's link header
  local place = "outer ethernet"
  if link == 1 then
    return pull_ethernet(c, place, w)
  elseif link == 7 or link == 129 or link == 130 then
    need(c, 1, place, "IP")
    local version = floor(byte(c, c.at) / 16)
    return version == 4 and L.ETHERTYPE_IPV4 or version == 6 and L.ETHERTYPE_IPV6 or 0
  elseif SLL_TYPES[link] then
    return pull_tags(c, pull(c, H[SLL_TYPES[link]], place).type, place, w)
  end
  return 0
end

-- (bytes of the payload by the UDP header where it goes to a report port, damage of what brings the report)
local function read_outer(c, version)
  local report, damage = nil, nil
  local fine, problem = pcall(function()
    local ip_at = c.at
    local ip = pull_ip(c, version, "outer ip")
    if ip.protocol ~= L.PROTOCOL_UDP or ip.offset ~= 0 then return end
    if not report_ports[peek(c, H.PORTS, "outer udp").dport] then return end
    report = 0
    if ip.more then refuse("fragment", "outer ip", ip_at, "first fragment of a datagram") end
    local udp_at, udp = c.at, pull(c, H.UDP, "outer udp")
    if udp.length < H.UDP.size or udp_at + udp.length > ip_at + ip.length then
      refuse("bad_length", "outer udp", udp_at, ("UDP length %d, the IP length leaves %d"):format(
        udp.length, ip_at + ip.length - udp_at))
    end
    report = udp.length - H.UDP.size
  end)
  if not fine then
    if type(problem) ~= "table" then error(problem, 0) end
    damage = problem
  end
  return report, damage
end

function PROTO_INT.dissector(tvb, pinfo, root)
  if inside or handled == pinfo.number then return end
  local link = encapsulation()
  local w = reading(tvb, 0)
  local c = cursor(tvb, 0, tvb:len())
  local fine, ethertype = pcall(read_link, c, w, link and link.value or 1)
  if not fine then
    if type(ethertype) ~= "table" then error(ethertype, 0) end
    return
  end
  local start = c.at
  if version_of(ethertype) ~= 0 then
    local report, damage = read_outer(c, version_of(ethertype))
    local left = math.min(report or 0, c.stop - c.at)
    if report and not damage and left > 0 then -- another protocol took it, by its source port
      return show_datagram(tvb(c.at, left):tvb(), pinfo, root, report)
    elseif report then
      w.damage = damage
      if not damage then -- nothing behind the UDP header
        guard(w, function() need(cursor(tvb, c.at, c.at), 1, "report header", "report") end)
      end
      show_damage(root:add(PROTO, tvb(start), "Telemetry Report " .. summary(w)), w)
      pinfo.cols.info:append(" " .. summary(w))
      return
    end
  end
  if not PROTO.prefs.packets then return end
  c = cursor(tvb, start, tvb:len())
  guard(w, function() read_type(c, w, ethertype) end)
  if not w.int or (#w.int == 0 and not w.damage) then return end
  local tree = #w.int > 0 and show_int(root, w) or root:add(PROTO_INT, tvb(w.int_at))
  show_flow(tree, w)
  if w.damage then show_damage(tree, w) end
  local text = w.damage and summary(w)
    or name_of(w) .. (#w.path > 0 and " path " .. table.concat(w.path, " → ") or "")
  pinfo.cols.info:append(" [" .. text .. "]")
end

-- DTA: base header, then by the opcode.
local DTA = {
  { "Key-Write", H.DTA_KEY_WRITE }, { "Append", H.DTA_APPEND }, { "Key-Increment", H.DTA_KEY_INCREMENT },
  { "Postcarding", H.DTA_POSTCARD },
}

local function show_dta(c, tree, header, texts)
  local values = pull(c, header, "dta")
  show_rows(tree, c.tvb, values.at, header, "dta")
  for _, row in ipairs(header) do
    if row.name ~= "opcode" and values[row.name] then
      texts[#texts + 1] = ("%s %d"):format(row.name:gsub("_", " "), values[row.name])
    end
  end
  return values
end

local function strange(head) -- a list that has not 4 bytes, or a counter that has not 8
  return (head.opcode == 2 and head.key_bytes ~= 4) or (head.opcode == 3 and head.data_bytes ~= 8)
end

-- The form of a datagram by its length: a published one where that fits, then ours.
local function form_of(tvb, primitive)
  local size, sized = tvb:reported_len(), H.DTA_SIZED.size
  local body = primitive and size - primitive[2].size
  if body == H.DTA_2.size then return body end
  if body == H.DTA_3.size or tvb:len() < sized then return H.DTA_3.size end
  local head = values_of(tvb, 0, H.DTA_SIZED)
  local whole = head.key_bytes + head.data_bytes + sized == size and not strange(head)
  return whole and sized or H.DTA_3.size
end

-- Key or data of the sized form: a number where it has the 4 (or, a counter, 8) bytes of the published forms.
local function show_octets(c, tree, size, number, octets, texts)
  local at = skip(c, size, "dta", octets)
  if size == 0 then return end
  local name = number .. (number == "counter" and ":0/64" or ":0/32")
  if size == (number == "counter" and 8 or 4) then
    tree:add(FIELD["dta." .. name], c.tvb(at, size))
    if size == 4 then texts[#texts + 1] = ("%s %d"):format(number, c.tvb(at, size):uint()) end
  else
    tree:add(FIELD["dta." .. octets], c.tvb(at, size))
  end
end

local function show_sized(c, tree, texts)
  local head = show_dta(c, tree, H.DTA_SIZED, {})
  local is_list, is_counter = head.opcode == 2, head.opcode == 3
  need(c, head.key_bytes + head.data_bytes, "dta", "key and data")
  if strange(head) then
    refuse("bad_length", "dta", 0, ("key of %d bytes, data of %d"):format(head.key_bytes, head.data_bytes))
  end
  show_octets(c, tree, head.key_bytes, is_list and "list" or "key", "key_octets", texts)
  if head.opcode == 4 then texts[#texts + 1] = ("hop %d"):format(head.hop) end
  show_octets(c, tree, head.data_bytes, is_counter and "counter" or "data", "data_octets", texts)
end

function PROTO_DTA.dissector(tvb, pinfo, root)
  if tvb:len() == 0 then return 0 end
  local c, texts = cursor(tvb, 0, tvb:len()), {}
  local tree = root:add(PROTO_DTA, tvb())
  local w = { tvb = tvb }
  guard(w, function()
    if pinfo.dst_port == PROTO.prefs.dta_port + L.DTA_ACK_PORT - L.DTA_PORT then
      local sized = tvb:len() == H.DTA_SIZED_ACK.size
      local ack = show_dta(c, tree, sized and H.DTA_SIZED_ACK or H.DTA_ACK, texts)
      table.insert(texts, 1, ack.nack == 1 and "DTA NACK" or "DTA ACK")
      return
    end
    local opcode = tvb(0, 1):uint()
    local primitive = DTA[opcode]
    local form = PROTO.prefs.dta_form
    if form == 0 then form = form_of(tvb, primitive) end
    tree:add(FIELD["dta.form"], tvb(0, 1), form):set_generated()
    table.insert(texts, 1, primitive and "DTA " .. primitive[1] or ("DTA opcode %d"):format(opcode))
    if form == H.DTA_SIZED.size then return show_sized(c, tree, texts) end
    show_dta(c, tree, form == 2 and H.DTA_2 or H.DTA_3, {})
    if not primitive then refuse("unknown_type", "dta", 0, ("opcode %d"):format(opcode)) end
    show_dta(c, tree, primitive[2], texts)
  end)
  if w.damage then show_damage(tree, w) end
  if c.at < c.stop then tree:add(FIELD["dta.rest"], tvb(c.at)) end
  local text = table.concat(texts, ", ")
  tree:set_text("Direct Telemetry Access: " .. text)
  pinfo.cols.protocol = "DTA"
  pinfo.cols.info = text .. (w.damage and " refused: " .. w.damage.reason or "")
  return tvb:len()
end

-- INT-label: IP protocol 253 (paper), Ethernet types 0x0700 and 0x0701 (published code), and the datagrams in
-- which last hops send labels on.
local IP_PROTOCOLS = DissectorTable.get("ip.proto")

-- An option and its items, the newest first; `form`: header of the items. Counts above MAX_hop are those of
-- tracked flows.
local function show_labels(c, tree, form)
  local option = pull(c, H.LABEL_OPTION, "label")
  show_rows(tree, c.tvb, option.at, H.LABEL_OPTION, "label")
  local count, most, nodes = option.count, PROTO.prefs.label_max_hop, {}
  if form == H.LABEL_STATE then
    local tracked = count > most
    if tracked then count = count - most end
    tree:add(FIELD["label.tracked"], c.tvb(option.at, 2), tracked):set_generated()
  end
  tree:add(FIELD["label.labels"], c.tvb(option.at, 2), count):set_generated()
  need(c, count * form.size, "label", ("%d items"):format(count))
  for number = 1, count do
    local item = pull(c, form, "label")
    local sub = tree:add(FIELD["label.item"], c.tvb(item.at, form.size))
    local device = item.node_id or item.device_id
    sub:set_text(("Hop %d: device %d"):format(count - number, device))
    show_rows(sub, c.tvb, item.at, form, "label.item")
    table.insert(nodes, 1, ("%d"):format(device))
  end
  return option, nodes
end

-- The flow in front of an option: its first byte is a version where the option's count would be 0.
local FLOW_SOURCE = byte_of(H.LABEL_FLOW, "source")
local FLOW_DESTINATION = byte_of(H.LABEL_FLOW, "destination")
local MAPPED = ("00"):rep(10) .. "FFFF"

local function pull_tracked(c)
  local head = peek(c, H.LABEL_OPTION, "label")
  if head.count > 0 or head.next_header == 0 then return nil end
  if head.next_header ~= L.LABEL_FLOW_VERSION then
    refuse("unknown_version", "label", c.at, ("a flow of version %d"):format(head.next_header))
  end
  return pull(c, H.LABEL_FLOW, "label")
end

local function show_tracked(tree, tvb, flow, option)
  local sub = tree:add(FIELD["flow"], tvb(flow.at, H.LABEL_FLOW.size))
  for name, first in pairs({ src = flow.at + FLOW_SOURCE, dst = flow.at + FLOW_DESTINATION }) do
    if tvb(first, 12):bytes():tohex() == MAPPED then
      sub:add(FIELD["flow." .. name], tvb(first + 12, 4))
    else
      sub:add(FIELD["flow." .. name .. "6"], tvb(first, 16))
    end
  end
  local ports = tvb(flow.at + byte_of(H.LABEL_FLOW, "source_port"), 4)
  sub:add(FIELD["flow.proto"], tvb(option.at, 1))
  if flow.source_port > 0 or flow.destination_port > 0 then
    sub:add(FIELD["flow.sport"], ports(0, 2))
    sub:add(FIELD["flow.dport"], ports(2, 2))
  end
end

local function show_source_route(c, tree)
  local at = c.at
  pull(c, H.LABEL_ROUTE, "label")
  show_rows(tree, c.tvb, at, H.LABEL_ROUTE, "label.route")
  repeat
    local entry = pull(c, H.LABEL_ROUTE_ENTRY, "label")
    show_rows(tree, c.tvb, entry.at, H.LABEL_ROUTE_ENTRY, "label.route")
  until entry.last == 1
  local following = skip(c, 2, "label", "Ethernet type")
  if c.tvb(following, 2):uint() ~= L.ETHERTYPE_LABEL then
    refuse("unknown_type", "label", following, ("type 0x%04x"):format(c.tvb(following, 2):uint()))
  end
end

local function finish_labels(tree, tvb, pinfo, w, text)
  if w.damage then
    show_damage(tree, w)
    text = "INT-label refused: " .. w.damage.reason
  end
  tree:set_text(text)
  pinfo.cols.protocol = "INT-label"
  pinfo.cols.info = text
  return tvb:len()
end

-- What follows an IP header of IFA's protocol: TCP or UDP without the stack, for Wireshark's own dissectors.
-- The tree of the IFA is that of PROTO_INT, after all dissectors.
local function hand_on(tvb, pinfo, root)
  local c = cursor(tvb, 0, tvb:len())
  if not is_ifa(c) then return nil end
  local fine, damage = pcall(function()
    local head = pull(c, H.IFA, "ifa")
    check_ifa(head)
    local l4 = c.at
    skip_l4(c, head.next_header)
    local bytes = tvb(l4, c.at - l4):bytes()
    skip(c, 4 * pull(c, H.IFA_METADATA, "ifa").words, "ifa", "IFA stack")
    if c.at < c.stop then bytes = bytes .. tvb(c.at):bytes() end
    IP_PROTOCOLS:try(head.next_header, bytes:tvb("Packet without IFA"), pinfo, root)
  end)
  if not fine and type(damage) == "table" then return 0 end -- damaged: PROTO_INT says how
  return tvb:len()
end

function PROTO_LABEL.dissector(tvb, pinfo, root)
  if pinfo.match == rule(R.IFA_PROTOCOL) then -- both use the protocol for experiments
    local handed = hand_on(tvb, pinfo, root)
    if handed or pinfo.match ~= PROTO.prefs.label_protocol then return handed or 0 end
  end
  local tree = root:add(PROTO_LABEL, tvb())
  -- what is in the frame behind the IP packet's stated end contradicts its length; what is not was cut
  local c, w = cursor(tvb, 0, math.max(tvb:len(), pinfo.caplen - tvb:offset())), { tvb = tvb }
  c.limit = math.min(c.stop, tvb:reported_len())
  local by_type = pinfo.match == L.ETHERTYPE_LABEL or pinfo.match == L.ETHERTYPE_LABEL_ROUTE
  local option, nodes = nil, {}
  guard(w, function()
    if pinfo.match == L.ETHERTYPE_LABEL_ROUTE then show_source_route(c, tree) end
    option, nodes = show_labels(c, tree, by_type and H.LABEL_ITEM or H.LABEL_STATE)
  end)
  tree:set_len(math.min(c.at, tvb:len()))
  local text = ("INT-label, %d items, path %s"):format(#nodes, table.concat(nodes, " → "))
  if not w.damage and not by_type and c.at < tvb:len() then
    -- a cut packet ends in an error
    pcall(function() IP_PROTOCOLS:try(option.next_header, tvb(c.at):tvb(), pinfo, root) end)
  end
  return finish_labels(tree, tvb, pinfo, w, text)
end

function PROTO_LABELS.dissector(tvb, pinfo, root)
  local tree = root:add(PROTO_LABELS, tvb())
  local c, w = cursor(tvb, 0, tvb:len()), { tvb = tvb }
  local paths = {}
  guard(w, function()
    repeat
      local start = c.at
      local sub = tree:add(FIELD["label.block"], tvb(start))
      sub:set_text(("Packet %d"):format(#paths))
      local flow = pull_tracked(c)
      local option, nodes = show_labels(c, sub, H.LABEL_STATE)
      if flow then show_tracked(sub, c.tvb, flow, option) end
      sub:set_len(c.at - start)
      if #nodes == 0 then refuse("bad_length", "label", start, "a block without items") end
      paths[#paths + 1] = table.concat(nodes, " → ")
    until c.at >= c.stop
    if tvb:reported_len() > tvb:len() then
      refuse("truncated", "label", tvb:len(), "the capture cut the datagram")
    end
  end)
  return finish_labels(tree, tvb, pinfo, w, ("INT-label, %d packets, paths %s"):format(
    #paths, table.concat(paths, ", ")))
end

-- --------------------------------------------------------------------------------------------- registered

local UDP_PORTS, ETHERTYPES = DissectorTable.get("udp.port"), DissectorTable.get("ethertype")
local now = {} -- what is registered: the preferences may change

local function register()
  dialect = DIALECTS[PROTO.prefs.dialect]
  report_ports, int_dscp, int_ports = numbers(PROTO.prefs.report_ports), numbers(PROTO.prefs.int_dscp),
    numbers(PROTO.prefs.int_ports)
  if not next(report_ports) then
    for port = 0, 65535 do
      if role(port, R.ROLE_REPORT) then report_ports[port] = true end
    end
  end
  for _, entry in ipairs(now) do entry[1]:remove(entry[2], entry[3]) end
  now = {}
  local function add(where, key, protocol)
    where:add(key, protocol)
    now[#now + 1] = { where, key, protocol }
  end
  for port in pairs(report_ports) do
    if port > 0 then add(UDP_PORTS, port, PROTO) end
  end
  add(UDP_PORTS, PROTO.prefs.dta_port, PROTO_DTA)
  add(UDP_PORTS, PROTO.prefs.dta_port + L.DTA_ACK_PORT - L.DTA_PORT, PROTO_DTA)
  add(IP_PROTOCOLS, PROTO.prefs.label_protocol, PROTO_LABEL)
  local ifa_protocol = rule(R.IFA_PROTOCOL)
  if ifa_protocol ~= 0 and ifa_protocol ~= PROTO.prefs.label_protocol then
    add(IP_PROTOCOLS, ifa_protocol, PROTO_LABEL)
  end
  add(UDP_PORTS, PROTO.prefs.label_port, PROTO_LABELS)
end

PROTO.prefs_changed = register
register()
ETHERTYPES:add(L.ETHERTYPE_LABEL, PROTO_LABEL)
ETHERTYPES:add(L.ETHERTYPE_LABEL_ROUTE, PROTO_LABEL)
register_postdissector(PROTO_INT)
