"""The words of the built-in corpus: English and German side by side, as tables, and how each word inflects.

Entries read `English = German`; a table's key lists the kinds of thing its words name (nouns) or go with (adjectives).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

NOM, ACC, DAT, GEN = range(4)
ME, HE, THEY = range(3)  # persons; `we` takes the forms of `they` in both languages. No `you`: German has three


def _entries(table: str) -> Iterator[tuple[str, str]]:
    """The two sides of each `left = right`, entries separated by `;`."""
    for entry in table.split(";"):
        if entry.strip():
            left, right = entry.split(" = ")
            yield " ".join(left.split()), " ".join(right.split())


# Nouns


class Noun(NamedTuple):
    en: str
    en_plural: str
    de: str
    de_plural: str  # "" where the noun has none
    gender: str  # m, f, n
    weak: bool  # takes the plural's form in every singular case but the nominative: der Junge, den Jungen
    kinds: tuple[str, ...]

    def english(self, plural: bool) -> str:
        return self.en_plural if plural else self.en

    def german(self, case: int, plural: bool) -> str:
        if plural:
            return self.de_plural + ("n" if case == DAT and self.de_plural[-1] not in "ns" else "")
        if self.weak and case != NOM:
            return self.de_plural
        if case == GEN and self.gender != "f":
            return self.de + ("es" if re.search("[sßxz]$|^[^aeiouäöü]*[aeiouäöü]+[^aeiouäöü]+$", self.de, re.I) else "s")
        return self.de


# singular [plural] = Singular gender [plural or its ending]; gender w: masculine and weak
NOUNS = {
    "person": """
        man men = Mann m Männer; woman women = Frau f -en; child children = Kind n -er; boy = Junge w -n; girl = Mädchen n -;
        nurse = Krankenschwester f -n; farmer = Bauer w -n; baker = Bäcker m -; gardener = Gärtner m -; soldier = Soldat w -en;
        thief thieves = Dieb m -e; king = König m -e; queen = Königin f -nen
        """,
    "person own": """
        father = Vater m Väter; mother = Mutter f Mütter; brother = Bruder m Brüder; sister = Schwester f -n;
        son = Sohn m Söhne; daughter = Tochter f Töchter; uncle = Onkel m -; aunt = Tante f -n;
        grandmother = Großmutter f Großmütter; friend = Freund m -e; neighbour = Nachbar w -n; guest = Gast m Gäste;
        teacher = Lehrer m -; student = Student w -en; doctor = Arzt m Ärzte
        """,
    "animal": """
        dog = Hund m -e; cat = Katze f -n; bird = Vogel m Vögel; horse = Pferd n -e; cow = Kuh f Kühe; pig = Schwein n -e;
        bear = Bär w -en; monkey = Affe w -n; mouse mice = Maus f Mäuse;
        rabbit = Kaninchen n -; goat = Ziege f -n
        """,
    "food": """
        apple = Apfel m Äpfel; pear = Birne f -n; cake = Kuchen m -; banana = Banane f -n; tomato = Tomate f -n;
        salad = Salat m -e; bread = Brot n; cheese = Käse m
        """,
    "food dish": """
        soup = Suppe f; egg = Ei n -er; potato = Kartoffel f -n; sausage = Wurst f Würste; carrot = Karotte f -n;
        rice = Reis m; meat = Fleisch n
        """,
    "drink": """
        water = Wasser n; milk = Milch f; tea = Tee m; coffee = Kaffee m; beer = Bier n; wine = Wein m; juice = Saft m
        """,
    "text": """
        book = Buch n Bücher; letter = Brief m -e; story = Geschichte f -n; poem = Gedicht n -e; novel = Roman m -e;
        message = Nachricht f -en
        """,
    "thing": """
        key = Schlüssel m -; ball = Ball m Bälle; umbrella = Regenschirm m -e; knife knives = Messer n -; spoon = Löffel m -;
        fork = Gabel f -n; ring = Ring m -e; flower = Blume f -n; picture = Bild n -er;
        present = Geschenk n -e; chair = Stuhl m Stühle
        """,
    "thing fragile": "cup = Tasse f -n; plate = Teller m -; glass = Glas n Gläser; mirror = Spiegel m -",
    "thing closable": "bag = Tasche f -n; bottle = Flasche f -n; box = Kiste f -n; suitcase = Koffer m -",
    "machine": """
        lamp = Lampe f -n; computer = Computer m -; radio = Radio n -s; television = Fernseher m -
        """,
    "clothing": """
        coat = Mantel m Mäntel; shirt = Hemd n -en; hat = Hut m Hüte; dress = Kleid n -er; shoe = Schuh m -e;
        jacket = Jacke f -n
        """,
    "vehicle": "car = Auto n -s; bicycle = Fahrrad n Fahrräder",
    "vehicle line": "bus = Bus m -se; train = Zug m Züge; ship = Schiff n -e",
    "room building": """
        house = Haus n Häuser; school = Schule f -n; church = Kirche f -n; hotel = Hotel n -s
        """,
    "building": """
        cinema = Kino n -s; museum = Museum n Museen; theatre = Theater n -; hospital = Krankenhaus n Krankenhäuser;
        restaurant = Restaurant n -s
        """,
    "room": "kitchen = Küche f -n; office = Büro n -s; room = Zimmer n -",
    "area": "garden = Garten m Gärten; park = Park m -s; forest = Wald m Wälder",
    "area town": "city = Stadt f Städte; village = Dorf n Dörfer",
    "spot": "station = Bahnhof m Bahnhöfe; lake = See m -n; river = Fluss m Flüsse; beach = Strand m Strände",
    "spot closable": "window = Fenster n -; door = Tür f -en",
    "surface": "bridge = Brücke f -n; island = Insel f -n; hill = Hügel m -; street = Straße f -n",
    "event": "concert = Konzert n -e; party = Feier f -n; wedding = Hochzeit f -en; journey = Reise f -n",
}


def _plural(english: str) -> str:
    if re.search("[^aeiou]y$", english):
        return english[:-1] + "ies"
    return english + ("es" if re.search("(s|x|sh|ch|[^aeio]o)$", english) else "s")


def _noun(left: str, right: str, kinds: str) -> Noun:
    en, *en_plural = left.split()
    de, gender, *de_plural = right.split()
    ending = de_plural[0] if de_plural else ""
    return Noun(
        en,
        en_plural[0] if en_plural else _plural(en),
        de,
        de + ending[1:] if ending.startswith("-") else ending,
        "m" if gender == "w" else gender,
        gender == "w",
        tuple(kinds.split()),
    )


NOUN = {noun.en: noun for kinds, table in NOUNS.items() for noun in (_noun(*entry, kinds) for entry in _entries(table))}


# Endings: one row a gender (p: plural of any), one column a case


def _paradigm(*rows: str) -> dict[str, list[str]]:
    return {gender: [ending.strip("-") for ending in row.split()] for gender, row in zip("mfnp", rows, strict=True)}


ARTICLE = _paradigm("er en em es", "ie ie er er", "as as em es", "ie ie en er")  # after d-
DIES = _paradigm("er en em es", "e e er er", "es es em es", "e e en er")
EIN = _paradigm("- en em es", "e e er er", "- - em es", "e e en er")
FIXED = _paradigm(*["- - - -"] * 4)
STRONG = _paradigm("er en em en", "e e er er", "es es em en", "e e en er")
WEAK = _paradigm("e en en en", "e e en en", "e e en en", "en en en en")
MIXED = _paradigm("er en en en", "e e en en", "es es en en", "en en en en")
RELATIVE = _paradigm("der den dem dessen", "die die der deren", "das das dem dessen", "die die denen deren")  # whole words


# Adjectives


class Adjective(NamedTuple):
    en: str
    de: str
    stem: str  # of the inflected forms: teuer, but teure
    kinds: tuple[str, ...]


# adjective = Adjektiv[/inflected stem]
ADJECTIVES = {
    "person": """
        friendly = freundlich; clever = klug; rich = reich; poor = arm; polite = höflich; angry = wütend;
        proud = stolz; sad = traurig; happy = glücklich
        """,
    "person animal": """
        young = jung; tired = müde/müd; hungry = hungrig; strong = stark; brave = mutig; curious = neugierig;
        ill = krank
        """,
    "person area building": "famous = berühmt",
    "person animal text thing machine clothing vehicle room building surface": "old = alt",
    "animal thing machine clothing vehicle room building surface area": "small = klein; big = groß; beautiful = schön",
    "text thing machine clothing vehicle room building": "new = neu",
    "thing machine clothing vehicle": "expensive = teuer/teur; cheap = billig; heavy = schwer; light = leicht",
    "thing clothing vehicle room": "dirty = schmutzig; clean = sauber",
    "text event": "long = lang; short = kurz; interesting = interessant; important = wichtig",
    "machine vehicle building": "modern = modern",
    "building room area": "quiet = ruhig; dark = dunkel/dunkl",
    "food drink": "good = gut; fresh = frisch; cold = kalt; sweet = süß; delicious = lecker",
    "dish drink clothing room": "warm = warm",
    "vehicle animal": "fast = schnell",
    "spot surface": "dangerous = gefährlich",
}
# A second attribute, after the others: a small black dog
COLOURS = {
    "animal clothing vehicle thing machine": "black = schwarz; white = weiß",
    "animal clothing": "brown = braun",
    "clothing vehicle thing machine": "red = rot; blue = blau; green = grün; yellow = gelb",
}


def _adjectives(tables: dict[str, str]) -> dict[str, Adjective]:
    words = {}
    for kinds, table in tables.items():
        for en, right in _entries(table):
            de, _, stem = right.partition("/")
            words[en] = Adjective(en, de, stem or de, tuple(kinds.split()))
    return words


ADJECTIVE = _adjectives(ADJECTIVES)
COLOUR = _adjectives(COLOURS)


# Determiners


class Determiner(NamedTuple):
    singular: str  # English forms
    plural: str
    stem: str  # German
    endings: dict[str, list[str]]
    adjective: dict[str, list[str]]  # the endings of an adjective after it
    definite: bool


THE = Determiner("the", "the", "d", ARTICLE, WEAK, True)
THIS = Determiner("this", "these", "dies", DIES, WEAK, True)
A = Determiner("a", "", "ein", EIN, MIXED, False)
NOT_A = Determiner("a", "", "kein", EIN, MIXED, False)  # not + a, and not + no article: kein
BARE = Determiner("", "", "", FIXED, STRONG, False)
EVERY = Determiner("every", "", "jed", DIES, WEAK, False)
ALL = Determiner("", "all", "all", DIES, WEAK, False)
MANY = Determiner("", "many", "viel", DIES, STRONG, False)
SOME = Determiner("", "some", "einig", DIES, STRONG, False)
TWO = Determiner("", "two", "zwei", FIXED, STRONG, False)
THREE = Determiner("", "three", "drei", FIXED, STRONG, False)
POSSESSIVES = [
    Determiner(en, en, de, EIN, MIXED, True)
    for en, de in _entries("my = mein; his = sein; her = ihr; our = unser; their = ihr")
]


# Pronouns, question words and names: whatever stands for a whole noun phrase


class Proform(NamedTuple):
    subject: str  # English forms
    object: str
    german: tuple[str, str, str]  # by case, NOM to DAT
    person: int
    pronoun: bool


def _proforms(table: str, person: int, pronoun: bool = True) -> dict[str, Proform]:
    words = {}
    for left, right in _entries(table):
        en, de = left.split(), right.split()
        words[en[0]] = Proform(en[0], en[-1], tuple(de * 3)[:3] if len(de) == 1 else tuple(de), person, pronoun)
    return words


PRONOUN = {
    **_proforms("I me = ich mich mir", ME),
    **_proforms("he him = er ihn ihm; she her = sie sie ihr", HE),
    **_proforms("we us = wir uns uns; they them = sie sie ihnen", THEY),
}
IT = _proforms("it = es", HE)["it"]  # of the weather
QUESTION = _proforms("who whom = wer wen wem; what = was", HE, pronoun=False)
NAME = _proforms("Anna = Anna; Maria = Maria; Paul = Paul; Peter = Peter", HE, pronoun=False)
CITY = _proforms("Berlin = Berlin; Vienna = Wien; Munich = München; Cologne = Köln", HE, pronoun=False)


# Prepositions


class Preposition(NamedTuple):
    en: str  # of one word or more
    de: str
    case: int


IN, AT, ON = Preposition("in", "in", DAT), Preposition("at", "an", DAT), Preposition("on", "auf", DAT)
BEHIND, BESIDE = Preposition("behind", "hinter", DAT), Preposition("next to", "neben", DAT)
IN_FRONT_OF = Preposition("in front of", "vor", DAT)
TO, TO_CITY, FROM_TOWN = Preposition("to", "zu", DAT), Preposition("to", "nach", DAT), Preposition("from", "aus", DAT)
INTO, THROUGH = Preposition("into", "in", ACC), Preposition("through", "durch", ACC)
WITH, WITHOUT = Preposition("with", "mit", DAT), Preposition("without", "ohne", ACC)
FOR, FROM, AFTER = Preposition("for", "für", ACC), Preposition("from", "von", DAT), Preposition("after", "nach", DAT)

PLACES = ("room", "building", "area")
WHERE = [(IN, PLACES)] * 4 + [(AT, ("spot",))] * 2 + [(ON, ("surface",))] * 2
WHERE += [(preposition, ("building",)) for preposition in (BEHIND, BESIDE, IN_FRONT_OF)]
WHITHER = [(TO, (*PLACES, "spot")), (INTO, PLACES), (THROUGH, ("area",))]
WHITHER_FAR = [(TO, (*PLACES, "spot")), (INTO, ("area",)), (THROUGH, ("area",))]

CONTRACTIONS = {
    ("in", "dem"): "im",
    ("in", "das"): "ins",
    ("an", "dem"): "am",
    ("an", "das"): "ans",
    ("zu", "dem"): "zum",
    ("zu", "der"): "zur",
    ("von", "dem"): "vom",
}


# Verbs

DO, HAVE = ("do", "does", "do"), ("have", "has", "have")
HABEN, SEIN = ("habe", "hat", "haben"), ("bin", "ist", "sind")


class Verb(NamedTuple):
    en: str
    en_present: tuple[str, ...]  # by person, as are the other tuples of forms
    en_past: tuple[str, ...]
    en_participle: str
    particle: str  # English: get up
    prefix: str  # German: auf-stehen
    infinitive: str  # without the prefix, as are the next three
    present: tuple[str, ...]
    past: tuple[str, ...]
    participle: str
    perfect: tuple[str, ...]  # HABEN or SEIN
    subjects: tuple[str, ...] = ()  # kinds
    objects: tuple[str, ...] = ()
    case: int = ACC  # of the object
    preposition: Preposition | None = None  # of the object
    recipient: bool = False  # to whom
    extras: tuple[str, ...] = ()  # what else may go with it: see below

    @property
    def citation(self) -> str:
        return f"{self.en} {self.particle}".strip()


# English = German | kinds of subject | kinds of object | extras.
# English: base, past and participle where irregular; + before a particle.
# German: infinitive, - after a separable prefix, which the other forms leave out; of strong verbs er-form, past and participle;
# * where the perfect takes sein.
# Extras: place (where it happens), home (where, and it must be said), goal (whither), trip (whither, in a vehicle),
# city (to which), company (with whom), for and from (whom), how (manner); state: no modal verb and no time.
INTRANSITIVE = """
    sleep slept = schlafen schläft schlief geschlafen | person animal | | place how;
    work = arbeiten | person | | place company how;
    dance = tanzen | person | | place company how;
    play = spielen | person | | place company how;
    sing sang sung = singen singt sang gesungen | person | | place company how;
    laugh = lachen | person | | place how;
    cry = weinen | person | | place how;
    smoke = rauchen | person | | place;
    sit sat = sitzen sitzt saß gesessen | person animal | | home company how;
    stand stood = stehen steht stand gestanden | person animal | | home company how;
    live = wohnen | person | | home company how;
    stay = bleiben bleibt blieb *geblieben | person animal | | home company;
    swim swam swum = schwimmen schwimmt schwamm *geschwommen | person animal | | company how;
    get+up got = auf-stehen steht stand *gestanden | person | | how;
    wake+up woke woken = *auf-wachen | person animal | | place how;
    fall+asleep fell fallen = ein-schlafen schläft schlief *geschlafen | person animal | | place;
    arrive = an-kommen kommt kam *gekommen | person line | | home;
    depart = ab-fahren fährt fuhr *gefahren | line | | ;
    go went gone = gehen geht ging *gegangen | person | | goal company how;
    run ran run = laufen läuft lief *gelaufen | person animal | | goal how;
    travel travelled = *reisen | person | | trip city company how;
    drive drove driven = fahren fährt fuhr *gefahren | person | | trip company how;
    fly flew flown = fliegen fliegt flog *geflogen | person | | city company;
    return = *zurück-kehren | person animal | | goal company how;
    hurry = *eilen | person animal | | goal
"""
TRANSITIVE = """
    see saw seen = sehen sieht sah gesehen | person animal | person animal thing vehicle building | place;
    hear heard = hören | person animal | person animal | place how;
    find found = finden findet fand gefunden | person animal | person animal thing | place;
    look+for = suchen | person | person animal thing text clothing | place how;
    lose lost = verlieren verliert verlor verloren | person | thing text clothing | place state;
    need = brauchen | person | thing machine vehicle clothing | state;
    have had = haben hat hatte gehabt | person | thing animal vehicle machine clothing | state;
    buy bought = kaufen | person | thing machine vehicle clothing food drink text | place for how;
    carry = tragen trägt trug getragen | person | thing text food | goal how;
    take took taken = nehmen nimmt nahm genommen | person | thing food vehicle clothing | ;
    love = lieben | person | person animal | state;
    visit = besuchen | person | person building area | company;
    meet met = treffen trifft traf getroffen | person | person | place how;
    greet = grüßen | person | person | place how;
    understand understood = verstehen versteht verstand verstanden | person | person text | ;
    forget forgot forgotten = vergessen vergisst vergaß vergessen | person | person thing text clothing | place;
    invite = ein-laden lädt lud geladen | person | person | how;
    call = an-rufen ruft rief gerufen | person | person | how;
    know knew known = kennen kennt kannte gekannt | person | person text building area | state;
    draw drew drawn = zeichnen | person | animal thing building | place for how;
    wash = waschen wäscht wusch gewaschen | person | clothing vehicle animal | place how;
    tidy+up = auf-räumen | person | room | company how;
    repair = reparieren | person | machine vehicle | place for how;
    build built = bauen | person | building surface vehicle | for;
    open = öffnen | person | closable text | how;
    close = zu-machen | person | closable | how;
    turn+on = ein-schalten | person | machine | how;
    turn+off = aus-schalten | person | machine | how;
    put+on put put = an-ziehen zieht zog gezogen | person | clothing | how;
    read read = lesen liest las gelesen | person | text | place how;
    write wrote written = schreiben schreibt schrieb geschrieben | person | text | for how;
    eat ate eaten = essen isst aß gegessen | person | food | place how;
    drink drank drunk = trinken trinkt trank getrunken | person animal | drink | place how;
    cook = kochen | person | dish | for;
    order = bestellen | person | food drink text | for;
    pay+for paid = bezahlen | person | food drink thing clothing | ;
    cut cut = schneiden schneidet schnitt geschnitten | person | food | how;
    throw threw thrown = werfen wirft warf geworfen | person | thing | ;
    break broke broken = zerbrechen zerbricht zerbrach zerbrochen | person | fragile | ;
    steal stole stolen = stehlen stiehlt stahl gestohlen | person | thing vehicle animal | how;
    hide hid hidden = verstecken | person animal | thing food text | place how;
    use = benutzen | person | thing machine vehicle | ;
    choose chose chosen = aus-suchen | person | thing clothing food | for how;
    feed fed = füttern | person | animal | place;
    catch caught = fangen fängt fing gefangen | person animal | animal | place how;
    fetch = ab-holen | person | person | company;
    bring+along brought = mit-bringen bringt brachte gebracht | person | thing food text | for;
    prepare = vor-bereiten | person | event | for how;
    look+at = an-schauen | person | person animal thing building | how;
    watch = beobachten | person animal | person animal | how;
    receive = bekommen bekommt bekam bekommen | person | text thing | from
"""
DATIVE = """
    help = helfen hilft half geholfen | person | person | place;
    thank = danken | person | person | ;
    answer = antworten | person | person | how;
    follow = *folgen | person animal | person animal | goal how;
    trust = vertrauen | person | person | ;
    listen+to = zu-hören | person | person | how;
    belong+to = gehören | thing text machine clothing vehicle | person | state
"""
WITH_RECIPIENT = """
    give gave given = geben gibt gab gegeben | person | thing text food drink animal clothing | how;
    show showed shown = zeigen | person | thing text clothing building vehicle | ;
    send sent = schicken | person | thing text clothing | ;
    sell sold = verkaufen | person | thing vehicle animal machine clothing | ;
    lend lent = leihen leiht lieh geliehen | person | thing vehicle text clothing | ;
    offer = an-bieten bietet bot geboten | person | food drink thing | ;
    explain = erklären | person | text machine |
"""
WITH_PREPOSITION = {
    Preposition("for", "auf", ACC): "wait = warten | person animal | person line | place how",
    Preposition("after", "auf", ACC): "look = auf-passen | person | person animal | ",
    Preposition("of", "an", ACC): "think thought = denken denkt dachte gedacht | person | person animal event | ",
    Preposition("of", "von", DAT): "dream = träumen | person | person animal event | ",
    Preposition("about", "über", ACC): "talk = reden | person | person text event animal | place how",
    Preposition("against", "gegen", ACC): "fight fought = kämpfen | person | person animal | place",
    Preposition("in", "an", DAT): "participate = teil-nehmen nimmt nahm genommen | person | event | company",
    WITH: "speak spoke spoken = sprechen spricht sprach gesprochen | person | person | place how",
    FROM_TOWN: "come came come = kommen kommt kam *gekommen | person | town | ",
}
REPORTING = """
    say said = sagen | person | | ;
    believe = glauben | person | | state;
    hope = hoffen | person | | state;
    notice = bemerken | person | | state
"""
ASKING = "ask = fragen | person | | "
WEATHER = "rain = regnen | | | ; snow = schneien | | | "


def _linking_e(stem: str) -> str:
    """The e between stem and -t or -te: arbeitet, öffnet."""
    return "e" if re.search("([dt]|(ch|[bdfgkpt])[nm])$", stem) else ""


def _english(left: str) -> dict[str, str]:
    (base, particle), *rest = [part.partition("+")[::2] for part in left.split()]
    rest = [part for part, _ in rest]
    regular = re.sub("(?<=[^aeiou])y$", "i", base)
    past = rest[0] if rest else regular + ("d" if regular.endswith("e") else "ed")
    third = "has" if base == "have" else _plural(base)
    return {
        "en": base,
        "en_present": (base, third, base),
        "en_past": (past,) * 3,
        "en_participle": rest[-1] if rest else past,
        "particle": particle,
    }


def _german(right: str) -> dict:
    infinitive, *strong = right.replace("*", "").split()
    prefix, _, infinitive = infinitive.rpartition("-")
    stem = infinitive.removesuffix("en") if infinitive.endswith("en") else infinitive.removesuffix("n")
    weak = stem + _linking_e(stem) + "t"
    with_ge = not re.search("^(be|ge|er|ver)|ieren$", infinitive)
    third, past, participle = strong or (weak, weak + "e", "ge" * with_ge + weak)
    return {
        "prefix": prefix,
        "infinitive": infinitive,
        "present": (stem + "e", third, infinitive),
        "past": (past, past, past + ("n" if past[-1] == "e" else "en")),
        "participle": participle,
        "perfect": SEIN if "*" in right else HABEN,
    }


def _verbs(table: str, **frame) -> dict[str, Verb]:
    verbs = {}
    for left, right in _entries(table):
        german, *fields = right.split("|")
        subjects, objects, extras = (tuple(field.split()) for field in fields)
        verb = Verb(**_english(left), **_german(german), subjects=subjects, objects=objects, extras=extras, **frame)
        verbs[verb.citation] = verb
    return verbs


WITH_COMPLEMENTS = {
    **_verbs(INTRANSITIVE),
    **_verbs(TRANSITIVE),
    **_verbs(DATIVE, case=DAT),
    **_verbs(WITH_RECIPIENT, recipient=True),
    **{en: verb for of, table in WITH_PREPOSITION.items() for en, verb in _verbs(table, preposition=of).items()},
}
BE = Verb(
    en="be",
    en_present=("am", "is", "are"),
    en_past=("was", "was", "were"),
    en_participle="been",
    particle="",
    prefix="",
    infinitive="sein",
    present=SEIN,
    past=("war", "war", "waren"),
    participle="gewesen",
    perfect=SEIN,
)
REPORT = _verbs(REPORTING)
ASK = _verbs(ASKING)["ask"]
WEATHERS = _verbs(WEATHER)
VERB = {**WITH_COMPLEMENTS, **REPORT, "ask": ASK, **WEATHERS}


class Modal(NamedTuple):
    en: str
    german: tuple[str, str, str]  # by person


MODAL = {
    en: Modal(en, tuple(de.split()))
    for en, de in _entries("""
        can = kann kann können; must = muss muss müssen; may = darf darf dürfen;
        should = sollte sollte sollten; will = werde wird werden; want = will will wollen
        """)
}


# Adverbs and fixed expressions; the parts of the two sides, split at blanks, are translations of each other; + is a blank


class Adverb(NamedTuple):
    en: tuple[str, ...]
    de: tuple[str, ...]

    def english(self, key) -> list[tuple[str, tuple]]:
        return [(word, ((key, self.en, i),)) for i, part in enumerate(self.en) for word in part.split()]

    def german(self, key) -> list[tuple[str, tuple]]:
        return [(word, ((key, self.en, i),)) for i, part in enumerate(self.de) for word in part.split()]


def _adverbs(table: str) -> dict[str, Adverb]:
    words = {}
    for sides in _entries(table):
        en, de = (tuple(part.replace("+", " ") for part in side.split()) for side in sides)
        words[" ".join(en)] = Adverb(en, de)
    return words


_ANY_TIME = """
    in+the morning = am Morgen; in+the evening = am Abend; at night = in+der Nacht; on Monday = am Montag;
    on Friday = am Freitag; on Sunday = am Sonntag; in summer = im Sommer; in winter = im Winter; every day = jeden Tag;
    """
TIMES = {
    "present": _adverbs(_ANY_TIME + "today = heute; now = jetzt"),
    "past": _adverbs(_ANY_TIME + "yesterday = gestern; recently = neulich; last week = letzte Woche"),
    "perfect": _adverbs("today = heute"),
    "future": _adverbs(_ANY_TIME + "tomorrow = morgen; today = heute; soon = bald; later = später; next week = nächste Woche"),
}
ALREADY = _adverbs("already = schon")["already"]
FREQUENCY = _adverbs("often = oft; always = immer; never = nie; rarely = selten; really = wirklich")
SENTENCE_ADVERB = _adverbs("sometimes = manchmal; usually = meistens; perhaps = vielleicht; probably = wahrscheinlich")
PLACE = _adverbs("here = hier; there = dort; outside = draußen; at home = zu Hause")
MANNER = _adverbs("""
    slowly = langsam; quietly = leise; alone = allein; carefully = vorsichtig; secretly = heimlich; immediately = sofort
    """)
DEGREE = _adverbs("very = sehr; too = zu; quite = ziemlich")
ASKED = _adverbs("where = wo; when = wann; why = warum")

# Conjunctions

LINK = {"and": "und", "but": "aber"}
BECAUSE, ALTHOUGH, IF = ("because", "weil"), ("although", "obwohl"), ("if", "wenn")
WHEN = ("when", "als")  # of the past
TEMPORAL = (("while", "während"), ("before", "bevor"), ("until", "bis"))
THAT, WHETHER = ("that", "dass"), ("whether", "ob")
