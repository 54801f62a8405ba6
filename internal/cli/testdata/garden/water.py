BEDS = {"tomatoes": 0.4, "beans": 0.3}


def thirsty(moisture):
    return [bed for bed, least in BEDS.items() if moisture[bed] < least]
